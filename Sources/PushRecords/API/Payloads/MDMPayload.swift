import JSON

/// Tells a managed device to contact its MDM server (push type `mdm`): `{"mdm":"…"}`, and nothing else.
///
/// Its topic is the UID in the subject of the MDM push certificate: `topic: .exactly("com.apple.mgmt.External.…")`.
/// Source: "Sending MDM commands to a device".
public struct MDMPayload: PushPayload {
    /// The `PushMagic` that the device sent in its TokenUpdate message.
    public var pushMagic: String

    /// A payload with a device's `PushMagic`.
    public init(pushMagic: String) { self.pushMagic = pushMagic }

    /// Always `mdm`.
    public var pushType: PushType { .mdm }

    /// `{"mdm":"…"}`. Throws when `pushMagic` is empty.
    public func json() throws(RequestError) -> [UInt8] {
        if pushMagic.isEmpty { throw RequestError(.badRequestPayload, "mdm: the PushMagic is empty") }
        var json = JSONWriter()
        json.beginObject()
        json.member("mdm", pushMagic)
        json.endObject()
        return Array(json.bytes)
    }
}
