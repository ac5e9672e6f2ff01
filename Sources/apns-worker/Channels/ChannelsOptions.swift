import APNs
import Configuration
import PushRecords

struct ChannelsOptions {
    enum Action: String, CaseIterable {
        case create, list, read, delete
    }

    enum Storage: String, CaseIterable {
        case none
        case mostRecent = "most-recent"
    }

    var file: String?
    var flags = AppFlags()
    var app: String?
    var bundleID: String?
    var environment: PushEnvironment?
    var channel: String?
    var storage: Storage?
    var deadline = Duration.seconds(30)
    var format = OutputFormat.text

    static let table = OptionTable<Self>(
        command: "apns-worker channels",
        usage: [
            "create --config FILE --storage none|most-recent [OPTIONS]",
            "list --config FILE [OPTIONS]",
            "read|delete --config FILE --channel ID [OPTIONS]",
            "ACTION --key-file FILE --key-id ID --team-id ID --bundle-id ID [OPTIONS]",
        ],
        about: [
            "Creates, lists, reads and deletes Apple's channels for broadcasts to Live Activities. The command does not use Kafka. Apple chooses a channel's id and allows 10,000 channels for an app in each environment. You cannot restore a deleted channel.",
            "Example: apns-worker channels create --config worker.yaml --storage most-recent",
        ], options: options,
        notes:
            "Exit codes: 0 done, 1 Apple refused the request or could not be reached, 64 wrong usage, 78 wrong configuration."
    )

    private static let options: [OptionTable<Self>.Option] =
        [
            .init("config", "c", value: "FILE", to: \.file, "Read the worker's configuration from this file."),
            .init("app", value: "NAME", to: \.app, "Choose the app, if the configuration has several."),
            .init("bundle-id", value: "ID", to: \.bundleID, "Choose the bundle id, if the app has several."),
            .init(
                "environment", value: "NAME", to: \.environment, parsedEnvironment,
                "Choose production or development, if an app is configured for both."),
            .init(
                "channel", value: "ID", to: \.channel, parsedChannel,
                "Read or delete the channel with this id, as printed by create and list."),
            .init(
                "storage", value: "POLICY", to: \.storage, { text in try OptionValue.choice(text) },
                "Choose the messages that a new channel stores for offline devices: none (for frequent updates; apns-expiration must be 0) or most-recent (the last message, for up to 8 hours). You cannot change the policy later."
            ),
        ] + AppFlags.keyOptions.map { $0.within(\.flags) } + [
            .init(
                "manage-host", value: "HOST", to: \.flags.manageHost,
                "Use this server, such as a simulator, instead of Apple's."),
            .init(
                "manage-port", value: "PORT", to: \.flags.managePort,
                "The server's port (default 2196, or 2195 in development)."),
            AppFlags.caFileOption.within(\.flags),
            .init(
                "deadline", value: "TIME", to: \.deadline, OptionValue.duration,
                "Wait this long for the answer (default 30s)."),
            .init("format", value: "NAME", choice: \.format, "Print text (default) or json (also for errors)."),
        ]

    private static func parsedChannel(_ text: String) throws(UsageError) -> String {
        let isID = (1...1_000).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
        return try OptionValue.accept(text, "a channel id as printed by create or list", isID ? text : nil)
    }

    /// Returns the request to Apple. Throws if an option is missing or does not fit the action.
    func operation(_ action: Action) throws -> ManagementRequest.Operation {
        try flags.requireEither(file)
        if action != .create, storage != nil { throw UsageError("--storage applies only to create") }
        switch (action, channel) {
        case (.create, nil):
            guard let storage else {
                throw UsageError("needs --storage none or --storage most-recent, which cannot be changed later")
            }
            return .create(storesMostRecent: storage == .mostRecent)
        case (.create, _):
            throw UsageError("--channel applies only to read and delete: Apple chooses the id of a new channel")
        case (.list, nil): return .list
        case (.list, _): throw UsageError("--channel applies only to read and delete")
        case (.read, let channel?): return .read(channel: channel)
        case (.delete, let channel?): return .delete(channel: channel)
        case (.read, nil), (.delete, nil): throw UsageError("needs --channel ID")
        }
    }

    func place() throws -> (AppSettings, String) {
        var flags = flags
        flags.bundleIDs = bundleID.map { [$0] } ?? []
        let fitting = try flags.load(file, environment).apps.filter { settings in
            (app == nil || settings.name == app) && (environment == nil || settings.environment == environment)
                && (bundleID.map { settings.bundleIDs.contains($0) } ?? true)
        }
        guard let settings = fitting.first else {
            throw UsageError("no app of the configuration has the given name, environment and bundle id")
        }
        guard fitting.count == 1 else {
            let names = fitting.map(\.name).joined(separator: ", ")
            throw UsageError("several apps match; choose one with --app NAME: \(names)")
        }
        guard let bundleID = bundleID ?? (settings.bundleIDs.count == 1 ? settings.bundleIDs.first : nil) else {
            let ids = settings.bundleIDs.joined(separator: ", ")
            throw UsageError("the app has several bundle ids; choose one with --bundle-id ID: \(ids)")
        }
        return (settings, bundleID)
    }
}
