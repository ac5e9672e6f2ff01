import Foundation
import Testing

/// The articles for users of other programs and libraries: each name of theirs that was looked up has its row, and each
/// name of ours is there.
@Suite struct ComingFromTests {
    struct Origin: CustomTestStringConvertible, Sendable {
        /// As the table's head has it.
        var name: String
        var file: String
        /// By their sources: settings, members, types, methods, metrics.
        var theirs: [String]
        /// What the article names beside these and ours: JSON, keys of lists, their values.
        var foreign: Set<String> = []

        var testDescription: String { name }
    }

    /// pusher 4.6.13.
    private static let pusher = Origin(
        name: "pusher", file: "ComingFromPusher.md",
        theirs: [
            "push-<game>_apns-single", "push-<game>_apns-massive", "push-<game>-apns-feedbacks", "DeviceToken",
            "Payload", "metadata", "push_expiry", "collapse_id", "apns.apps", "PUSHER_APNS_APPS",
            "apns.certs.<game>.authKeyPath", "apns.certs.<game>.keyID", "apns.certs.<game>.teamID",
            "apns.certs.<game>.topic", "--production", "-p", "apns.concurrentWorkers", "apns.connectionPoolSize",
            "apns.pushQueueSize", "apns.responseChannelSize", "queue.channelSize", "apns.rateLimit.rpm",
            "rateLimiter.redis", "rateLimiter.tls", "apns.dedup.ttl", "dedup.redis", "dedup.tls", "dedup.games",
            "apns.retry.interval", "apns.retry.maxRetryAttempts", "queue.topics", "queue.brokers", "queue.group",
            "queue.sessionTimeout", "queue.offsetResetStrategy", "latest", "queue.fetch.min.bytes",
            "queue.fetch.wait.max.ms", "queue.handleAllMessagesBeforeExiting", "gracefulShutdownTimeout",
            "feedback.reporters", "feedback.kafka", "StatusCode", "Reason", "ApnsID", "Sent", "Err", "timestamp",
            "metadata.deleteToken", "start-feedback-listener", "feedbackListeners.queue",
            "feedbackListeners.invalidToken", "stats.statsd", "sent", "ack", "failed", "send_notification_latency",
            "rate_limit_reached", "tokens_delete_success", "tokens_delete_error", "tokens_delete_nonexistent",
            "initialize_failure", "log.level", "--debug", "--json", "sentry.url", "pprof", "gcm", "pusher gcm",
        ],
        foreign: ["a.b", "PUSHER_A_B", "M", "apps", "app", "weight", "^", "-G"])

    /// Pushy 0.15.6, and what its main branch has beside it.
    private static let pushy = Origin(
        name: "Pushy", file: "ComingFromPushy.md",
        theirs: [
            "ApnsClientBuilder.build", "setApnsServer", "setSigningKey", "setTokenExpiration", "setClientCredentials",
            "setTrustedServerCertificateChain", "setHostnameVerificationEnabled", "setConcurrentConnections",
            "setCloseAfterIdleDuration", "setConnectionTimeout", "setGracefulShutdownTimeout", "close",
            "setProxyHandlerFactory", "setApnsClientResources", "setUseAlpn", "setFrameLogger", "setMetricsListener",
            "sendNotification", "getToken", "getPayload", "getTopic", "getExpiration", "getPriority", "getPushType",
            "getCollapseId", "getApnsId", "sanitizeTokenString", "getPushNotification", "isAccepted", "getStatusCode",
            "getRejectionReason", "getApnsUniqueId", "getTokenInvalidationTimestamp", "handleNotificationSent",
            "pushy.notifications.sent", "handleNotificationAcknowledged", "pushy.notifications.acknowledged",
            "handleWriteFailure", "pushy.notifications.failed", "handleConnectionAdded", "handleConnectionRemoved",
            "pushy.connections.open", "handleConnectionCreationFailed", "pushy.connections.failed", "MockApnsServer",
            "BenchmarkApnsServer",
        ],
        foreign: ["ApnsPayloadBuilder", "build", "ProducerRecord", "apps"])

    /// APNSwift 6.4.
    private static let apnSwift = Origin(
        name: "APNSwift", file: "ComingFromAPNSwift.md",
        theirs: [
            "APNSClient", "APNSClientConfiguration", "jwt", "tls", "APNSEnvironment", "proxy", "requestEncoder",
            "responseDecoder", "shutdown", "backgroundActivityLogger", "sendAlertNotification",
            "APNSAlertNotification", "APNSAlertNotificationContent", "raw", "localized", "launchImage", "badge",
            "sound", "category", "threadID", "mutableContent", "interruptionLevel", "relevanceScore",
            "targetContentID", "payload", "aps", "sendBackgroundNotification", "sendVoIPNotification",
            "sendComplicationNotification", "sendLocationNotification", "sendFileProviderNotification",
            "sendPushToTalkNotification", "sendWidgetsNotification", "sendLiveActivityNotification",
            "sendStartLiveActivityNotification", "APNSNotificationExpiration", "APNSPriority", "topic", "collapseID",
            "apnsID", "deviceToken", "APNSRequest", "APNSResponse", "APNSError", "timestamp", "send",
            "APNSBroadcastClient", "APNSTestServer",
        ],
        foreign: ["PushRecords", "apps", "immediately", "none", "JSONEncoder"])

    /// apns2 0.25.
    private static let apns2 = Origin(
        name: "apns2", file: "ComingFromAPNS2.md",
        theirs: [
            "NewTokenClient", "token.Token", "AuthKeyFromFile", "TokenTimeout", "NewClient", "FromP12File",
            "FromPemFile", "Development", "Production", "Host", "ClientManager", "MaxSize", "MaxAge", "Factory",
            "HTTPClientTimeout", "ReadIdleTimeout", "TCPKeepAlive", "TLSDialTimeout", "DialTLS", "HTTPClient",
            "CloseIdleConnections", "Push", "PushWithContext", "Notification.DeviceToken", "Notification.Payload",
            "payload.NewPayload", "Notification.Topic", "Notification.ApnsID", "Notification.CollapseID",
            "Notification.Priority", "Notification.PushType", "Notification.Expiration", "Response.Sent",
            "Response.StatusCode", "Response.Reason", "Response.ApnsID", "Response.ApnsUniqueID",
            "Response.Timestamp", "ReasonUnregistered", "apns2", "TOKEN PAYLOAD",
        ],
        foreign: ["apps", "json.Marshal", "kcat -P -t apns.requests -K ' ' -X partitioner=murmur2_random"])

    static let origins = [pusher, pushy, apnSwift, apns2]

    /// The rows of the one table, and all other text but the blocks of code.
    private static func read(_ origin: Origin) throws -> (rows: [(theirs: String, ours: String)], prose: String) {
        let parts = try OurNames.text("Sources/Worker/Worker.docc/\(origin.file)").components(separatedBy: "```")
        let lines = parts.enumerated().filter { $0.offset.isMultiple(of: 2) }
            .flatMap { $0.element.split(separator: "\n") }
        let rows = lines.filter { $0.hasPrefix("| ") }.map { line in
            line.dropFirst(2).dropLast(2).split(separator: " | ", maxSplits: 1, omittingEmptySubsequences: false)
                .map(String.init)
        }
        try #require(rows.first == [origin.name, "here"])
        try #require(rows.allSatisfy { $0.count == 2 })
        return (
            rows.dropFirst().map { ($0[0], $0[1]) }, lines.filter { !$0.hasPrefix("|") }.joined(separator: "\n")
        )
    }

    @Test(arguments: origins) func `Each name of theirs has its row`(origin: Origin) throws {
        let rows = try Self.read(origin).rows
        let named = Set(rows.map(\.theirs).flatMap(OurNames.spans))
        for name in origin.theirs where !named.contains(name) { Issue.record("\(origin.name): \(name) has no row") }
        for name in named where !origin.theirs.contains(name) { Issue.record("\(origin.name) has no \(name)") }
        for row in rows where OurNames.spans(of: row.ours).isEmpty {
            #expect(
                row.ours.hasPrefix("Nothing") || row.ours.hasPrefix("No result yet"),
                "\(row.theirs) has no counterpart, and it is not said that there is none")
        }
    }

    @Test(arguments: origins) func `Each name of ours is there`(origin: Origin) throws {
        let (rows, prose) = try Self.read(origin)
        let names = try OurNames()
        let known = origin.foreign.union(origin.theirs)
        // Files are looked for by `.ci/docs`.
        for span in Set((rows.map(\.ours) + [prose]).flatMap(OurNames.spans)).sorted()
        where !known.contains(span) && !span.hasPrefix("Tests/") && !names.has(span) {
            Issue.record("there is no \(span)")
        }
    }
}
