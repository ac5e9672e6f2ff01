package import APNs
package import Configuration
internal import JSON
package import PushRecords

/// Makes, reads, lists and deletes an app's broadcast channels at Apple, over a connection of its own for each request.
///
/// Runs a loop on the calling thread, so it is not for a thread that has one.
package enum ChannelManagement {
    /// What APNs said.
    package struct Answer: Sendable, Equatable {
        package var app: String
        package var environment: PushEnvironment
        package var bundleID: String
        package var status: Int
        /// Of a refusal.
        package var reason: Reason?
        /// What the reason means, and what to do.
        package var advice: String?
        /// `apns-request-id`: what Apple's support asks for.
        package var requestID: String?
        /// The channel that was made, read or deleted.
        package var channelID: String?
        /// `message-storage-policy`: 0 keeps no message for devices that cannot be reached, 1 the most recent one. Of a
        /// channel that was made or read.
        package var storagePolicy: Int?
        /// All channels of the bundle id, of a list.
        package var channels: [String]?

        package var isFine: Bool { reason == nil && (200...299).contains(status) }
    }

    /// There is no answer, or none that can be read; one line that says why.
    package struct Failure: Error, Sendable, CustomStringConvertible {
        package let description: String
    }

    /// - Parameter bundleID: one of the app's.
    package static func run(
        _ operation: ManagementRequest.Operation, bundleID: String, of settings: AppSettings, timeoutNs: Int64
    ) throws(Failure) -> Answer {
        let app: LoadedApp
        do {
            app = try LoadedApp(settings)
        } catch {
            throw Failure(description: "\(error)")
        }
        var configuration = APNsConfiguration(
            host: settings.manageHost, port: UInt16(clamping: settings.managePort), tls: app.context)
        configuration.proxy = app.proxy
        do {
            let said = try ManagementRequest.send(
                operation, bundleID: bundleID, configuration, token: ProviderTokens().token(of: app),
                timeoutNs: timeoutNs)
            return try Answer(said, to: operation, bundleID, settings)
        } catch let error as Failure {
            throw error
        } catch {
            throw Failure(description: "\(error)")
        }
    }
}

extension ChannelManagement.Answer {
    /// Throws where a success does not say what it should.
    package init(
        _ said: ManagementRequest.Answer, to operation: ManagementRequest.Operation, _ bundleID: String,
        _ settings: AppSettings
    ) throws(ChannelManagement.Failure) {
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
        switch operation {
        case .create(let storesMostRecent):
            guard !said.channelID.isEmpty else { throw Self.unreadable(said, "has no apns-channel-id") }
            channelID = said.channelID
            storagePolicy = storesMostRecent ? 1 : 0
        case .read:
            guard let policy = Self.policy(said.body) else { throw Self.unreadable(said, "has no storage policy") }
            storagePolicy = policy
        case .list:
            guard let channels = Self.channels(said.body) else {
                throw Self.unreadable(said, "has no list of channels")
            }
            self.channels = channels
        case .delete: break
        }
    }

    private static func unreadable(_ said: ManagementRequest.Answer, _ fault: String) -> ChannelManagement.Failure {
        ChannelManagement.Failure(
            description: "the answer (status \(said.status), apns-request-id \(said.requestID)) \(fault)")
    }

    private static func policy(_ body: [UInt8]) -> Int? {
        body.withUnsafeBytes { bytes -> Int? in
            do throws(JSONError) {
                var json = try JSONReader(bytes)
                var policy: Int64?
                try json.enterObject()
                while let name = json.nextMember() {
                    if name.equals("message-storage-policy") { policy = try json.integer() } else { json.skip() }
                }
                return policy.flatMap { Int(exactly: $0) }
            } catch {
                return nil
            }
        }
    }

    private static func channels(_ body: [UInt8]) -> [String]? {
        body.withUnsafeBytes { bytes -> [String]? in
            do throws(JSONError) {
                var json = try JSONReader(bytes)
                var channels: [String]?
                try json.enterObject()
                while let name = json.nextMember() {
                    guard name.equals("channels") else {
                        json.skip()
                        continue
                    }
                    var found: [String] = []
                    try json.enterArray()
                    while json.nextElement() { found.append(try json.text().string) }
                    channels = found
                }
                return channels
            } catch {
                return nil
            }
        }
    }

    /// What is wrong, and what to do. Source: Apple, "Handling error responses from Apple Push Notification service".
    static func advice(
        _ reason: ReasonCode, _ status: UInt16, _ bundleID: String, _ app: AppSettings
    ) -> String? {
        let place = "\(app.manageHost):\(app.managePort)"
        return switch reason {
        case .missingChannelId: "no channel id arrived; does a proxy before \(place) drop header fields?"
        case .badRequestParams, .badRequestPayload, .missingPushType, .invalidPushType, .payloadEmpty, .badMessageId,
            .duplicateHeaders:
            "\(place) wants another kind of request than this version makes; look for a newer one"
        case .topicDisallowed: "\(bundleID) must be the bundle id alone, without a push type's suffix"
        case .badPath, .methodNotAllowed:
            "\(place) does not manage channels; broadcast.manage_host and manage_port say where that is done"
        default: RefusalAdvice.of(reason, status: Int(status), bundleID, app)?.text
        }
    }
}
