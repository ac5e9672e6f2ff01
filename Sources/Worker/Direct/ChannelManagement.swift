package import APNs
package import Configuration
internal import JSON
package import Kafka
internal import Network
package import PushRecords

/// Creates, reads, lists and deletes an app's broadcast channels at Apple, with a new connection for each request.
///
/// `run` uses an event loop on the calling thread. Do not call `run` on a thread that already runs a loop.
package enum ChannelManagement {
    package struct Answer: Sendable, Equatable {
        package var app: String
        package var environment: PushEnvironment
        package var bundleID: String
        package var status: Int
        package var reason: Reason?
        package var advice: String?
        /// The `apns-request-id` of the answer, which Apple's support asks for.
        package var requestID: String?
        package var channelID: String?
        /// The `message-storage-policy` of a created or read channel: with 0, APNs stores no message for offline
        /// devices, with 1 the most recent message.
        package var storagePolicy: Int?
        package var channels: [String]?

        package var isFine: Bool { reason == nil && (200...299).contains(status) }
    }

    package static func run(
        _ operation: ManagementRequest.Operation, bundleID: String, of settings: AppSettings, timeoutNs: Int64
    ) throws(CommandFailure) -> Answer {
        let said: ManagementRequest.Answer
        do {
            let app = try LoadedApp(settings)
            let target = DialTarget(
                host: settings.manageHost, port: UInt16(clamping: settings.managePort), proxy: app.proxy)
            let configuration = APNsConfiguration(ConnectionSettings(target, tls: app.context))
            said = try ManagementRequest.send(
                operation, bundleID: bundleID, configuration, token: ProviderTokens().token(of: app),
                timeoutNs: timeoutNs)
        } catch {
            throw CommandFailure("\(error)")
        }
        return try Answer(said, to: operation, bundleID, settings)
    }
}

extension ChannelManagement.Answer {
    /// - Throws: `CommandFailure` if a successful answer lacks the requested data.
    package init(
        _ said: ManagementRequest.Answer, to operation: ManagementRequest.Operation, _ bundleID: String,
        _ settings: AppSettings
    ) throws(CommandFailure) {
        app = settings.name
        environment = settings.environment
        self.bundleID = bundleID
        status = Int(said.status)
        requestID = said.requestID.isEmpty ? nil : said.requestID
        switch operation {
        case .read(let channel), .delete(let channel): channelID = channel
        case .create, .list: break
        }
        guard (200...299).contains(said.status) else {
            let body = said.body.withUnsafeBytes { ErrorBody(parsing: $0) }
            reason = body.reason.reason ?? body.text.map { Reason(rawValue: $0) }
            advice = Self.advice(body.reason, said.status, bundleID, settings)
            return
        }
        func unreadable(_ fault: String) -> CommandFailure {
            CommandFailure("the answer (status \(said.status), apns-request-id \(said.requestID)) \(fault)")
        }
        switch operation {
        case .create(let storesMostRecent):
            guard !said.channelID.isEmpty else { throw unreadable("has no apns-channel-id") }
            channelID = said.channelID
            storagePolicy = storesMostRecent ? 1 : 0
        case .read:
            guard let policy = Self.members(said.body)?.policy else { throw unreadable("has no storage policy") }
            storagePolicy = policy
        case .list:
            guard let found = Self.members(said.body)?.channels else { throw unreadable("has no list of channels") }
            channels = found
        case .delete: break
        }
    }

    /// Returns the storage policy and the channels of an answer, or `nil` if the answer is not a JSON object or one of
    /// the two members has the wrong type.
    private static func members(_ body: [UInt8]) -> (policy: Int?, channels: [String]?)? {
        body.withUnsafeBytes { bytes in
            do throws(JSONError) {
                var json = try JSONReader(bytes)
                var (policy, channels): (Int?, [String]?)
                try json.enterObject()
                while let name = json.nextMember() {
                    if name.equals("message-storage-policy") {
                        policy = Int(try json.integer())
                    } else if name.equals("channels") {
                        var found: [String] = []
                        try json.enterArray()
                        while json.nextElement() { found.append(try json.text().string) }
                        channels = found
                    } else {
                        json.skip()
                    }
                }
                return (policy, channels)
            } catch {
                return nil
            }
        }
    }

    /// Returns the meaning of an error and what to do about it. Source: Apple, "Handling error responses from Apple
    /// Push Notification service".
    private static func advice(
        _ reason: ReasonCode, _ status: UInt16, _ bundleID: String, _ app: AppSettings
    ) -> String? {
        let place = "\(app.manageHost):\(app.managePort)"
        return switch reason {
        case .missingChannelId:
            "the server received no channel id; check for a proxy in front of \(place) that drops header fields"
        case .badRequestParams, .badRequestPayload, .missingPushType, .invalidPushType, .payloadEmpty, .badMessageId,
            .duplicateHeaders:
            "\(place) does not accept requests of this version of apns-worker; look for a newer version"
        case .topicDisallowed: "\(bundleID) must be the bundle id alone, without a push type's suffix"
        case .badPath, .methodNotAllowed:
            "\(place) does not manage channels; set broadcast.manage_host and manage_port to the server that does"
        default: RefusalAdvice.text(of: reason, status: Int(status), bundleID, app)
        }
    }
}
