import Configuration
import EventLoop
import PushRecords

/// The options of `send`.
struct SendOptions {
    enum Via: String, CaseIterable {
        case kafka, direct
    }

    var file: String?
    var flags = AppFlags()
    var via = Via.kafka
    var token: DeviceToken?
    var payload: String?
    var title: String?
    var alert: String?
    var app: String?
    var topic: String?
    var pushType = PushType.alert
    var priority: PushPriority?
    var expiration = PushExpiration.appleDefault
    var notBefore: UnixTime?
    var collapseID: String?
    var id: NotificationUUID?
    var environment: PushEnvironment?
    var requests: String?
    var deadline = Duration.seconds(30)
    var format = OutputFormat.text
    var keyLog: String?

    static let table = OptionTable<Self>(
        command: "apns-worker send",
        usage: [
            "--config FILE --token HEX --alert TEXT [OPTIONS]",
            "--config FILE --token HEX --payload JSON|@FILE|- [OPTIONS]",
            "--direct --key-file FILE --key-id ID --team-id ID --bundle-id ID --token HEX --alert TEXT [OPTIONS]",
        ],
        about: [
            "Sends one notification and prints what became of it. Through Kafka, as any producer would, it writes a request for a running worker and waits for its result. With --direct it sends it to APNs itself, with the app's credential, and nothing is published; flags can take the place of the configuration then. A refusal is explained."
        ], options: options + moreOptions + AppFlags.options.map { $0.within(\.flags) },
        notes:
            "Exit codes: 0 accepted, or put off until --not-before, 1 anything else (no result before the deadline too), 64 wrong usage, 78 wrong configuration."
    )

    private static let options: [OptionTable<Self>.Option] = [
        .init("config", "c", value: "FILE", to: \.file, "The worker's configuration."),
        .init("token", "t", value: "HEX", "The device token.") { options, text throws(UsageError) in
            do throws(RequestError) {
                options.token = try DeviceToken(hex: text)
            } catch {
                throw UsageError(error.detail)
            }
        },
        .init("payload", "p", value: "JSON", to: \.payload, "The payload; @FILE reads a file, - standard input."),
        .init("alert", "a", value: "TEXT", "Instead of a payload: an alert with this body.") { $0.alert = $1 },
        .init("title", value: "TEXT", "Its title.") { $0.title = $1 },
        .init("topic", value: "NAME", to: \.topic, "apns-topic; default: the app's when it has one bundle id."),
        .init("app", value: "NAME", to: \.app, "An app of the configuration, where the topic does not tell."),
        .init(
            "environment", value: "NAME", to: \.environment, parsedEnvironment,
            "production or development, where an app is configured for both; with --key-file, default production."),
        .init("push-type", value: "NAME", "apns-push-type: \(pushTypes); default alert.") {
            options, text throws(UsageError) in
            guard let type = PushType.allCases.first(where: { $0.text.description == text }) else {
                throw UsageError("expected one of \(pushTypes)")
            }
            options.pushType = type
        },
        .init("priority", value: "N", "apns-priority: 10, 5 or 1.") { options, text throws(UsageError) in
            options.priority = UInt8(text).flatMap { PushPriority(rawValue: $0) }
            if options.priority == nil { throw UsageError("expected 10, 5 or 1") }
        },
        .init(
            "expiration", value: "TIME", to: \.expiration, parsedExpiration,
            "apns-expiration: a duration from now such as 1h, seconds since 1970, or 0 for now or never."),
        .init(
            "not-before", value: "TIME", to: \.notBefore, parsedNotBefore,
            "push-not-before: a delay such as 90s or 2h, or seconds since 1970. Until then the request waits in a retry topic; what lies beyond the deadline is not waited for."
        ),
    ]

    /// Apple's words, with commas between them.
    private static let pushTypes = PushType.allCases.map(\.text.description).joined(separator: ", ")

    private static let moreOptions: [OptionTable<Self>.Option] = [
        .init("collapse-id", value: "ID", to: \.collapseID, "apns-collapse-id."),
        .init(
            "apns-id", value: "UUID", to: \.id, parsedUUID,
            "apns-id; default: derived from the request's place (--direct: random)."),
        .init("via", value: "WAY", choice: \.via, "kafka (default) or direct."),
        .init("direct", nil, "Straight to APNs, without Kafka and without a worker; the same as --via direct.") {
            $0.via = .direct
        },
        .init(
            "request-topic", value: "NAME", to: \.requests,
            "Where the request goes (default: the first of requests.topics)."),
        .init(
            "deadline", value: "TIME", to: \.deadline, OptionValue.duration,
            "How long to wait for the result (default 30s), and before that for the payload, where it comes through a pipe."
        ),
        .init("keylog", value: "FILE", to: \.keyLog, "\(keyLogHelp) With --direct only."),
        .init(
            "format", value: "NAME", choice: \.format,
            "text (default): a line for people; json: the result as it is published, and with a refusal the advice; --direct has the same members, but for request."
        ),
    ]

    private static func parsedExpiration(_ text: String) throws(UsageError) -> PushExpiration {
        if text == "0" { return .nowOrNever }
        if let seconds = Int64(text) { return .at(secondsSinceEpoch: seconds) }
        guard let duration = try? OptionValue.duration(text) else {
            throw UsageError("expected a duration such as 1h, seconds since 1970, or 0 for now or never")
        }
        return .at(secondsSinceEpoch: LoopTime.read().wallMs / 1_000 + duration.components.seconds)
    }

    private static func parsedNotBefore(_ text: String) throws(UsageError) -> UnixTime {
        let expected = "expected a delay such as 90s, or seconds since 1970"
        if let seconds = Int64(text) {
            // A time before September 2001 is a delay that lacks its unit, and would be sent at once.
            if 1..<1_000_000_000 ~= seconds { throw UsageError("\(expected); did you mean \(seconds)s?") }
            return UnixTime(secondsSinceEpoch: seconds)
        }
        guard let delay = try? OptionValue.duration(text) else { throw UsageError(expected) }
        // Rounded up: not before the whole delay is over.
        return UnixTime(secondsSinceEpoch: (LoopTime.read().wallMs + delay.milliseconds + 999) / 1_000)
    }

    /// Returns the device token; throws if an option is missing or does not fit.
    func checkedToken() throws -> DeviceToken {
        let hasFlags = flags != AppFlags()
        if file != nil, hasFlags { throw UsageError("give either --config or the flags for one app, not both") }
        if file == nil, via == .kafka {
            throw UsageError("needs --config FILE" + (hasFlags ? ", or --direct: a key alone reaches no Kafka" : ""))
        }
        if file == nil, !hasFlags {
            throw UsageError("needs --config FILE, or --key-file, --key-id, --team-id and --bundle-id")
        }
        guard let token else { throw UsageError("needs --token HEX") }
        let hasAlert = alert != nil || title != nil
        if payload == nil, !hasAlert { throw UsageError("needs --alert TEXT or --payload JSON") }
        if payload != nil, hasAlert { throw UsageError("give either --payload, or --alert and --title") }
        if via == .direct, requests != nil { throw UsageError("--request-topic is for --via kafka") }
        if via == .direct, notBefore != nil {
            throw UsageError("--not-before is for --via kafka: --direct sends at once")
        }
        if via == .kafka, keyLog != nil { throw UsageError("--keylog is for --direct; for the worker, give it to run") }
        return token
    }
}

/// Reads an `apns-id`.
func parsedUUID(_ text: String) throws(UsageError) -> NotificationUUID {
    guard let id = NotificationUUID(text: text) else { throw UsageError("expected a UUID") }
    return id
}
