import PushRecords

/// Apple's checks of channel management requests, and the answers.
///
/// Source: Apple, "Sending channel management requests to APNs" and "Handling error responses from Apple Push
/// Notification service".
struct ManagementCheck {
    enum Operation {
        case create, read, delete, list
    }

    /// The operation of a channel management request, and the bundle id, borrowed from the request's path.
    typealias Target = (operation: Operation, bundleID: UnsafeRawBufferPointer)

    struct Answer: Equatable {
        var status: UInt16
        var reason = ReasonCode.none
        /// The id of a new channel.
        var channelID: String?
        /// The body of a successful answer.
        var body = ""
    }

    /// The checks shared by broadcasts and channel management.
    var common: RequestCheck

    /// Checks the request's method and path. Returns the operation, or Apple's reason for a rejection. Call this method
    /// before the check of the provider token.
    func target(_ fields: RequestFields) -> (target: Target?, refusal: ReasonCode) {
        guard let rest = fields.path.after("/1/apps/"), let slash = rest.firstIndex(of: UInt8(ascii: "/")) else {
            return (nil, .badPath)
        }
        let bundleID = UnsafeRawBufferPointer(rebasing: rest[..<slash])
        guard !bundleID.isEmpty, common.isIdentifier(bundleID) else { return (nil, .badPath) }
        let resource = UnsafeRawBufferPointer(rebasing: rest[(slash + 1)...])
        let operation: Operation
        switch (common.text(resource), common.text(fields.method)) {
        case ("channels", "POST"): operation = .create
        case ("channels", "GET"): operation = .read
        case ("channels", "DELETE"): operation = .delete
        case ("all-channels", "GET"): operation = .list
        case ("channels", _), ("all-channels", _): return (nil, .methodNotAllowed)
        default: return (nil, .badPath)
        }
        return ((operation, bundleID), .none)
    }

    /// Performs the operation and returns the answer. Call this method after the check of the provider token.
    func answer(_ target: Target, _ fields: RequestFields, body: UnsafeRawBufferPointer) -> Answer {
        if fields.hasDuplicate { return Answer(.duplicateHeaders) }
        if let refusal = common.requestID(fields) ?? common.bundle(target.bundleID) { return Answer(refusal) }
        let bundleID = common.text(target.bundleID)
        switch target.operation {
        case .create: return create(bundleID, body)
        case .list:
            let ids = common.channels.ids(bundleID: bundleID).map { "\"\($0)\"" }
            return Answer(status: 200, body: "{\"channels\":[\(ids.joined(separator: ","))]}")
        case .read, .delete: break
        }
        guard fields.channelID.baseAddress != nil else { return Answer(.missingChannelId) }
        guard channelBytes(fields.channelID) != nil else { return Answer(.badChannelId) }
        let id = common.text(fields.channelID)
        if target.operation == .delete {
            return common.channels.delete(id, bundleID: bundleID)
                ? Answer(status: 204) : Answer(.channelNotRegistered)
        }
        guard let policy = common.channels.policy(of: id, bundleID: bundleID) else {
            return Answer(.channelNotRegistered)
        }
        return Answer(
            status: 200, body: "{\"message-storage-policy\":\(policy.rawValue),\"push-type\":\"LiveActivity\"}")
    }

    private func create(_ bundleID: String, _ body: UnsafeRawBufferPointer) -> Answer {
        guard let members = PayloadSyntax.members(of: body) else { return Answer(.badRequestPayload) }
        guard members.keys.allSatisfy({ $0 == "message-storage-policy" || $0 == "push-type" }) else {
            return Answer(.badRequestParams)
        }
        guard let type = members["push-type"] else { return Answer(.missingPushType) }
        // Apple on `push-type`: "The only allowed value is LiveActivity."
        guard type.spells("\"LiveActivity\"") else { return Answer(.invalidPushType) }
        let policy: ChannelBook.Policy
        switch members["message-storage-policy"] {
        case .some(let value) where value.spells("0"): policy = .nothing
        case .some(let value) where value.spells("1"): policy = .mostRecent
        // Apple documents no reason for a missing or unknown message storage policy.
        default: return Answer(.badRequestParams)
        }
        guard let id = common.channels.make(bundleID: bundleID, policy: policy) else {
            return Answer(.cannotCreateChannelConfig)
        }
        return Answer(status: 201, channelID: id)
    }
}

extension ManagementCheck.Answer {
    init(_ reason: ReasonCode) { self.init(status: Answer.status(of: reason), reason: reason) }
}
