import Configuration
import EventLoop
import PushRecords

struct SendOptions {
    var file: String?
    var flags = AppFlags()
    var isDirect = false
    var token: DeviceToken?
    var payload: String?
    var title: String?
    var alert: String?
    /// The notification without its payload, push type and topic.
    var notification = PushNotification(json: "")
    var topic: String?
    /// The push type, or `nil` to derive it from the topic's suffix.
    var pushType: PushType?
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
            "Sends one notification and prints its result. The command writes a request to Kafka, as any producer would, and waits for the worker's result. With --direct the command sends the notification to APNs itself and publishes nothing. If Apple refuses the notification, the command explains why.",
            "Example: apns-worker send --config worker.yaml --token 0123abcd… --alert Hello",
        ], options: options + moreOptions + AppFlags.options.map { $0.within(\.flags) },
        notes:
            "Exit codes: 0 accepted, or waiting for --not-before; 1 another outcome, or no result before the deadline; 64 wrong usage, 78 wrong configuration."
    )

    private static let options: [OptionTable<Self>.Option] = [
        .init("config", "c", value: "FILE", to: \.file, "Read the worker's configuration from this file."),
        .init("token", "t", value: "HEX", "The device token.") { options, text in
            do throws(RequestError) {
                options.token = try DeviceToken(hex: text)
            } catch {
                throw UsageError(error.detail)
            }
        },
        .init(
            "payload", "p", value: "JSON", to: \.payload,
            "Send this payload: JSON text, @FILE to read a file, or - to read standard input."),
        .init("alert", "a", value: "TEXT", "Send an alert with this body, instead of --payload.") { $0.alert = $1 },
        .init("title", value: "TEXT", "Set the alert's title.") { $0.title = $1 },
        .init(
            "topic", value: "NAME", to: \.topic,
            "Set apns-topic (default: none; the worker uses its only bundle id, with the push type's suffix)."),
        .init("app", value: "NAME", to: \.notification.app, "Choose the app, if several apps have the topic."),
        .init(
            "environment", value: "NAME", to: \.notification.environment, parsedEnvironment,
            "Choose production or development, if an app is configured for both (default with --key-file: production)."),
        .init(
            "push-type", value: "NAME",
            "Set apns-push-type: \(pushTypes) (default: the push type that the topic's suffix belongs to, or alert)."
        ) { options, text in
            let type = PushType.allCases.first { $0.text.description == text }
            options.pushType = .some(try OptionValue.accept(text, "one of \(pushTypes)", type))
        },
        .init("priority", value: "N", "Set apns-priority: 10, 5 or 1.") { options, text in
            options.notification.priority = UInt8(text).flatMap { PushPriority(rawValue: $0) }
            if options.notification.priority == nil { throw UsageError("expected 10, 5 or 1") }
        },
        .init(
            "expiration", value: "TIME", to: \.notification.expiration, parsedExpiration,
            "Set apns-expiration: a duration from now such as 1h, seconds since 1970, or 0 for a single attempt."),
        .init(
            "not-before", value: "TIME", to: \.notification.notBefore, parsedNotBefore,
            "Set push-not-before: a delay such as 90s or 2h, or seconds since 1970. The notification waits in a retry topic until that time. If the time is after --deadline, the command ends once the notification is in the retry topic."
        ),
    ]

    private static let pushTypes = PushType.allCases.map(\.text.description).joined(separator: ", ")

    private static let moreOptions: [OptionTable<Self>.Option] = [
        .init("collapse-id", value: "ID", to: \.notification.collapseID, "Set apns-collapse-id."),
        .init(
            "apns-id", value: "UUID", to: \.notification.apnsID, parsedUUID,
            "Set apns-id (default: derived from the request's topic, partition and offset; random with --direct)."),
        .init("direct", sets: \.isDirect, "Send directly to APNs, without Kafka and without a worker."),
        .init(
            "request-topic", value: "NAME", to: \.requests,
            "Write the request to this topic (default: the first of requests.topics)."),
        .init(
            "deadline", value: "TIME", to: \.deadline, OptionValue.duration,
            "Wait this long for the result, and for a payload from a pipe (default 30s)."),
        .init("keylog", value: "FILE", to: \.keyLog, "\(keyLogHelp) Only with --direct."),
        .init(
            "format", value: "NAME", choice: \.format,
            "text (default) prints a line; json prints the published result, with advice after a refusal. With --direct the result has no member request."
        ),
    ]

    private static func parsedExpiration(_ text: String) throws(UsageError) -> PushExpiration {
        if text == "0" { return .nowOrNever }
        if let seconds = Int64(text) { return .at(secondsSinceEpoch: seconds) }
        guard let duration = try? OptionValue.duration(text) else {
            throw UsageError("expected a duration such as 1h, seconds since 1970, or 0 for a single attempt")
        }
        return .at(secondsSinceEpoch: LoopTime.read().wallMs / 1_000 + duration.components.seconds)
    }

    private static func parsedNotBefore(_ text: String) throws(UsageError) -> UnixTime {
        let expected = "expected a delay such as 90s, or seconds since 1970"
        if let seconds = Int64(text) {
            // A time before September 2001 is probably a delay without a unit. As a time it lies in the past, and the
            // notification would be sent immediately.
            if 1..<1_000_000_000 ~= seconds { throw UsageError("\(expected); did you mean \(seconds)s?") }
            return UnixTime(secondsSinceEpoch: seconds)
        }
        guard let delay = try? OptionValue.duration(text) else { throw UsageError(expected) }
        // The time is rounded up, so that the notification is not sent before the whole delay has passed.
        return UnixTime(secondsSinceEpoch: (LoopTime.read().wallMs + delay.milliseconds + 999) / 1_000)
    }

    func checkedToken() throws -> DeviceToken {
        try flags.requireEither(file)
        if file == nil, !isDirect {
            throw UsageError("needs --config FILE or --direct: the options for one app contain no Kafka brokers")
        }
        guard let token else { throw UsageError("needs --token HEX") }
        let hasAlert = alert != nil || title != nil
        if payload == nil, !hasAlert { throw UsageError("needs --alert TEXT or --payload JSON") }
        if payload != nil, hasAlert { throw UsageError("--payload cannot be combined with --alert or --title") }
        if isDirect, requests != nil { throw UsageError("--request-topic needs Kafka: leave out --direct") }
        if isDirect, notification.notBefore != nil { throw UsageError("--not-before needs Kafka: leave out --direct") }
        if !isDirect, keyLog != nil {
            throw UsageError("--keylog needs --direct; for the worker's connections, set --keylog on the command run")
        }
        return token
    }
}

func parsedUUID(_ text: String) throws(UsageError) -> NotificationUUID {
    try OptionValue.accept(text, "a UUID", NotificationUUID(text: text))
}
