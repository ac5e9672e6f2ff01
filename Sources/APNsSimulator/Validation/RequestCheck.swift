import PushRecords

/// One complete request after the checks of method and path.
struct CheckedRequest {
    /// The bytes of the path's device token or of a broadcast's channel id. Empty if invalid.
    var token = UnsafeRawBufferPointer.nothing
    /// `apns-id` (`apns-request-id` of a broadcast), or `.none` if absent or invalid.
    var id = NotificationUUID.none
    /// The bundle id in a broadcast's path. A null base address means that the request is for a device.
    var bundleID = UnsafeRawBufferPointer.nothing

    var isBroadcast: Bool { bundleID.baseAddress != nil }
}

/// Apple's checks of a request, except for the provider token.
///
/// The checks follow Apple's pages "Sending notification requests to APNs", "Handling notification responses from
/// APNs", and for broadcasts "Sending broadcast push notification requests to APNs" and "Handling error responses from
/// Apple Push Notification service". The checks do not use the worker's `RequestParser`, because a bug in shared code
/// would go unnoticed.
struct RequestCheck: Sendable {
    /// The allowed bundle ids without push type suffixes. An empty list allows all.
    var bundleIDs: [[UInt8]] = []
    /// Whether the topic's suffix must match the push type.
    var checksTopicSuffixes = true
    /// Bundle ids without broadcast capability.
    var withoutBroadcast: [[UInt8]] = []
    var channels = ChannelBook()
    /// The topic of requests without `apns-topic`, from the client certificate.
    var defaultTopic: [UInt8]?
    /// Whether the connection authenticates by certificate. The push type `location` requires provider tokens instead.
    var isCertificate = false

    static let payloadLimit = 4096
    /// Apple's limit: "For Voice over Internet Protocol (VoIP) notifications, the maximum payload size is 5 KB".
    static let voipPayloadLimit = 5120
    static let broadcastPayloadLimit = 5120
    static let collapseIDLimit = 64
    static let devicePath: StaticString = "/3/device/"

    /// Checks a request's method and path, and stores the token, id and bundle id in `request`. `room` is a buffer of
    /// 100 bytes for the token. Call this method before the check of the provider token.
    func target(
        _ fields: RequestFields, room: UnsafeMutableRawBufferPointer, into request: inout CheckedRequest
    ) -> ReasonCode {
        guard fields.method.spells("POST") else { return .methodNotAllowed }
        guard let digits = fields.path.after(Self.devicePath) else {
            if fields.path.spells("/3/device") { return .missingDeviceToken }
            return broadcastTarget(fields, room: room, into: &request)
        }
        request.token = deviceToken(digits, room: room)
        request.id = NotificationUUID(text: fields.id) ?? .none
        return .none
    }

    private func broadcastTarget(
        _ fields: RequestFields, room: UnsafeMutableRawBufferPointer, into request: inout CheckedRequest
    ) -> ReasonCode {
        guard let bundleID = fields.path.after("/4/broadcasts/apps/"), !bundleID.isEmpty, isIdentifier(bundleID) else {
            return .badPath
        }
        request.bundleID = bundleID
        request.id = NotificationUUID(text: fields.requestID) ?? .none
        if let id = channelBytes(fields.channelID) {
            room.copyBytes(from: id)
            request.token = UnsafeRawBufferPointer(rebasing: room[..<id.count])
        }
        return .none
    }

    /// Checks a request's headers and payload. Call this method after `target` and the check of the provider token.
    func content(
        _ fields: RequestFields, body: UnsafeRawBufferPointer, bodySize: Int, request: borrowing CheckedRequest
    ) -> ReasonCode {
        if fields.hasDuplicate { return .duplicateHeaders }
        if request.isBroadcast { return broadcast(fields, body: body, bodySize: bodySize, request: request) }
        if fields.path.count == Self.devicePath.utf8CodeUnitCount { return .missingDeviceToken }
        if request.token.isEmpty { return .badDeviceToken }
        if fields.id.baseAddress != nil, NotificationUUID(text: fields.id) == nil { return .badMessageId }
        if let refusal = topic(fields.topic) { return refusal }

        var type = PushType.alert
        if fields.pushType.baseAddress != nil {
            guard let known = pushType(fields.pushType), known != .location || !isCertificate else {
                return .invalidPushType
            }
            type = known
            if checksTopicSuffixes, let refusal = suffix(of: fields.topic, for: type) { return refusal }
        } else if let wanted = suffixed(fields.topic) {
            // APNs accepts a suffixed topic without a push type (Pr0Ger/PyAPNs2, issue 87).
            type = wanted
        }
        guard priority(fields.priority, of: type) else { return .badPriority }
        guard expiration(fields.expiration) else { return .badExpirationDate }
        // Apple on apns-collapse-id: "The value of this key must not exceed 64 bytes."
        if fields.collapseID.count > Self.collapseIDLimit { return .badCollapseId }

        if bodySize == 0 { return .payloadEmpty }
        if bodySize > (type == .voip ? Self.voipPayloadLimit : Self.payloadLimit) { return .payloadTooLarge }
        // Apple documents no reason for a body that is not a JSON object, so the simulator answers as for an empty
        // payload.
        return PayloadSyntax.isObject(body) ? .none : .payloadEmpty
    }

    private func broadcast(
        _ fields: RequestFields, body: UnsafeRawBufferPointer, bodySize: Int, request: borrowing CheckedRequest
    ) -> ReasonCode {
        if let refusal = requestID(fields) { return refusal }
        if let refusal = bundle(request.bundleID) { return refusal }
        if fields.channelID.baseAddress == nil { return .missingChannelId }
        if request.token.isEmpty { return .badChannelId }
        if fields.pushType.baseAddress == nil { return .missingPushType }
        // Apple's table capitalizes the push type, but Apple's examples do not.
        guard fields.pushType.spells("liveactivity") || fields.pushType.spells("Liveactivity") else {
            return .invalidPushType
        }
        guard priority(fields.priority, of: .liveactivity) else { return .badPriority }
        guard expiration(fields.expiration) else { return .badExpirationDate }
        // The channel need not exist if its id requests a fault.
        let policy =
            TokenTable.entry(for: request.token) == nil
            ? channels.policy(of: text(fields.channelID), bundleID: text(request.bundleID)) : .mostRecent
        guard let policy else { return .channelNotRegistered }
        // Apple: "For channels with a No Messages Stored storage policy, you can only specify a 0 expiration value."
        if policy == .nothing, fields.expiration.baseAddress != nil, !fields.expiration.spells("0") {
            return .badExpirationDate
        }
        if bodySize == 0 { return .payloadEmpty }
        if bodySize > Self.broadcastPayloadLimit { return .payloadTooLarge }
        return PayloadSyntax.isObject(body) ? .none : .payloadEmpty
    }

    /// Returns BadMessageId if `apns-request-id` is present but not a UUID, or else `nil`.
    func requestID(_ fields: RequestFields) -> ReasonCode? {
        fields.requestID.baseAddress != nil && NotificationUUID(text: fields.requestID) == nil ? .badMessageId : nil
    }

    /// Returns Apple's reason if broadcasts are not allowed for the bundle id, or else `nil`.
    func bundle(_ bundleID: UnsafeRawBufferPointer) -> ReasonCode? {
        func isAmong(_ ids: [[UInt8]]) -> Bool { ids.contains { bundleID.elementsEqual($0) } }
        if !isAmong(bundleIDs) {
            // Apple: "Ensure that no push type suffix is added to the bundle ID."
            if suffixed(bundleID) != nil { return .topicDisallowed }
            if !bundleIDs.isEmpty { return .topicMismatch }
        }
        return isAmong(withoutBroadcast) ? .featureNotEnabled : nil
    }

    func text(_ bytes: UnsafeRawBufferPointer) -> String { String(decoding: bytes, as: UTF8.self) }

    /// Decodes a device token into `room`. Returns the token's bytes, or an empty buffer if the token is invalid.
    @inline(__always)
    private func deviceToken(
        _ digits: UnsafeRawBufferPointer, room: UnsafeMutableRawBufferPointer
    ) -> UnsafeRawBufferPointer {
        guard digits.count % 2 == 0, digits.count <= 200 else { return .nothing }
        for index in 0..<digits.count / 2 {
            guard let high = hexDigit(digits[index * 2]), let low = hexDigit(digits[index * 2 + 1]) else {
                return .nothing
            }
            room[index] = high << 4 | low
        }
        return UnsafeRawBufferPointer(rebasing: room[..<(digits.count / 2)])
    }

    private func topic(_ topic: UnsafeRawBufferPointer) -> ReasonCode? {
        guard topic.baseAddress != nil else { return defaultTopic == nil ? .missingTopic : nil }
        guard !topic.isEmpty else { return .missingTopic }
        guard isIdentifier(topic) else { return .badTopic }
        if bundleIDs.isEmpty { return nil }
        let isKnown = bundleIDs.contains { bundle in
            guard topic.count >= bundle.count, topic.starts(with: bundle) else { return false }
            let suffix = UnsafeRawBufferPointer(rebasing: topic[bundle.count...])
            return suffix.isEmpty || Self.topicSuffixes.contains { suffix.spells($0.text) }
        }
        return isKnown ? nil : .topicDisallowed
    }

    /// Returns Apple's reason if the push type does not match the topic's suffix, or else `nil`.
    ///
    /// Apple: "apns-topic … must use your app's bundle ID with .voip appended". On a mismatch, "APNs may return an
    /// error, delay the delivery of the notification, or drop it altogether". Users of several APNs clients report
    /// these reasons:
    /// - InvalidPushType for an alert to a topic that ends in `.voip` (AndrewBarba/apns2, issue 23; Pr0Ger/PyAPNs2,
    ///   issue 87; ostinelli/apnotic, issue 87).
    /// - DeviceTokenNotForTopic for a voip push to the plain bundle id, because a voip token belongs to the topic with
    ///   `.voip` (laravel-notification-channels/apn, issue 88; edamov/pushok, issue 108).
    private func suffix(of topic: UnsafeRawBufferPointer, for type: PushType) -> ReasonCode? {
        let found = suffixed(topic)
        if found == nil { return type.suffix == nil ? nil : .deviceTokenNotForTopic }
        return found == type ? nil : .invalidPushType
    }

    /// Returns the push type of the topic's suffix, or `nil` if the topic has no suffix. For a request without a topic,
    /// uses the certificate's topic.
    private func suffixed(_ topic: UnsafeRawBufferPointer) -> PushType? {
        if topic.baseAddress == nil {
            guard let defaultTopic else { return nil }
            return defaultTopic.withUnsafeBytes { $0.isEmpty ? nil : suffixed($0) }
        }
        return Self.topicSuffixes.first { suffix in
            let size = suffix.text.utf8CodeUnitCount
            return topic.count > size && UnsafeRawBufferPointer(rebasing: topic.suffix(size)).spells(suffix.text)
        }?.type
    }

    /// Returns whether the text can be a bundle id: letters, digits, hyphens and periods (CFBundleIdentifier), and
    /// underscores, which occur in practice.
    func isIdentifier(_ text: UnsafeRawBufferPointer) -> Bool {
        text.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"):
                true
            default: false
            }
        }
    }

    private static let topicSuffixes: [(text: StaticString, type: PushType)] = PushType.allCases.compactMap { type in
        type.suffix.map { ($0, type) }
    }

    private func pushType(_ text: UnsafeRawBufferPointer) -> PushType? {
        PushType.allCases.first { text.spells($0.text) }
    }

    /// Returns whether the priority is valid. Apple: "If you omit this header, APNs sets the notification priority to
    /// 10". "Always use priority 5 [with background]. Using priority 10 is an error."
    private func priority(_ text: UnsafeRawBufferPointer, of type: PushType) -> Bool {
        if text.baseAddress == nil { return type != .background }
        if text.spells("5") { return true }
        return type != .background && (text.spells("10") || text.spells("1"))
    }

    /// Returns whether an expiration is valid: 32-bit seconds since the epoch. 0 requests one attempt without storage.
    private func expiration(_ text: UnsafeRawBufferPointer) -> Bool {
        guard text.baseAddress != nil else { return true }
        let isNumber = text.count <= 10 && text.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        return isNumber && UInt32(self.text(text)) != nil
    }
}
