/// A header of a Kafka record, in memory of its own.
public struct HeaderField: Hashable, Sendable, CustomStringConvertible {
    /// In exactly this spelling: Kafka's headers know upper and lower case.
    public var name: String
    /// Any bytes.
    public var value: [UInt8]

    /// A header of bytes.
    public init(_ name: String, _ value: [UInt8]) {
        self.name = name
        self.value = value
    }

    /// A header of text.
    public init(_ name: String, _ value: String) { self.init(name, Array(value.utf8)) }

    /// The value as text; what is not UTF-8 in it is replaced.
    public var text: String { String(decoding: value, as: UTF8.self) }

    /// `name=value`, as `kcat -H` takes it.
    public var description: String { "\(name)=\(text)" }
}

/// A record for a request topic (`apns.requests`), to be produced with whatever Kafka client there is.
///
/// Produce it with `acks=all`, as for anything that is not to be lost. The key decides the partition, and requests of
/// one partition reach a device in order: leave the key as it is where order matters.
///
/// ```swift
/// var record = try notification.payloadRecord(to: token)
/// record.headers.append(HeaderField("traceparent", span.traceparent))   // is copied to the result
/// ```
public struct RequestRecord: Hashable, Sendable {
    /// Most devices of one record, in envelope form.
    public static var deviceLimit: Int { RequestParser.tokenLimit }

    /// `nil`: none; any partition will do.
    public var key: [UInt8]?
    /// The payload, or the envelope around it.
    public var value: [UInt8]
    /// In this order; add your own behind them.
    public var headers: [HeaderField]

    /// A record as it is; nothing is checked.
    public init(key: [UInt8]?, value: [UInt8], headers: [HeaderField]) {
        self.key = key
        self.value = value
        self.headers = headers
    }
}

extension RequestRecord {
    /// Throws what the worker would find wrong with it: by the worker's own parser, so that the rules are the same.
    func checked(form: ParsedRequest.Form) throws(RequestError) -> RequestRecord {
        // One range of bytes for all headers, so that they can be lent together.
        var text: [UInt8] = []
        var ends: [(name: Int, value: Int)] = []
        for header in headers {
            text += header.name.utf8
            let name = text.count
            text += header.value
            ends.append((name: name, value: text.count))
        }
        let error = text.withUnsafeBytes { text in
            var start = 0
            let lent = ends.map { end in
                defer { start = end.value }
                return RecordHeader(name: text.lent(start, end.name), value: text.lent(end.name, end.value))
            }
            return lent.withUnsafeBufferPointer { headers in
                value.withUnsafeBytes { value in
                    guard let key else { return Self.fault(.nothing, value.lent(0, value.count), headers, form) }
                    return key.withUnsafeBytes {
                        Self.fault($0.lent(0, $0.count), value.lent(0, value.count), headers, form)
                    }
                }
            }
        }
        if let error { throw error }
        return self
    }

    private static func fault(
        _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, _ headers: UnsafeBufferPointer<RecordHeader>,
        _ form: ParsedRequest.Form
    ) -> RequestError? {
        var parser = RequestParser()
        let request = parser.parse(key: key, value: value, headers: headers, role: .request)
        if request.form != form {
            return RequestError(
                .badRequestPayload,
                "the payload has the members of an envelope and no aps: only an envelope record can carry it")
        }
        if request.deadLetter == .notJSON {
            // In an envelope it was looked at before.
            let place = String(decoding: request.detail.subject, as: UTF8.self)
            return RequestError(.badRequestPayload, "the payload is not JSON: \(request.detail.text) \(place)")
        }
        if request.target == .none || request.isInvalid { return RequestError(request.failureReason, request.detail) }
        return nil
    }
}

extension UnsafeRawBufferPointer {
    /// A part of lent bytes that has an address even when it is empty: what is there, but has no bytes.
    fileprivate func lent(_ start: Int, _ end: Int) -> UnsafeRawBufferPointer {
        guard let baseAddress else { return ("" as StaticString).lentBytes }
        return UnsafeRawBufferPointer(start: baseAddress + start, count: end - start)
    }
}
