import APNs
import Configuration
import PushRecords

/// What the options of `channels` say.
struct ChannelsOptions {
    enum Action: String, CaseIterable {
        case create, list, read, delete
    }

    enum Storage: String, CaseIterable {
        case none
        case mostRecent = "most-recent"
    }

    var action = Action.list
    var file: String?
    var flags = AppFlags()
    var app: String?
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
            "Makes, lists, reads and deletes the channels of broadcasts to Live Activities at Apple. Nothing is read from or written to Kafka. Apple allows 10,000 channels for an app in each environment, and makes their ids; a channel that is deleted never comes back."
        ], options: options,
        notes:
            "Exit codes: 0 done, 1 refused or not reached, 64 wrong usage, 78 wrong configuration."
    )

    private static let options: [OptionTable<Self>.Option] =
        [
            .init("config", "c", value: "FILE", to: \.file, "The worker's configuration."),
            .init("app", value: "NAME", "An app of the configuration; needed where there are several.") { $0.app = $1 },
            .init("bundle-id", value: "ID", "A bundle id of the app; needed where it has several.") {
                $0.flags.bundleIDs = [$1]
            },
            .init(
                "environment", value: "NAME", to: \.environment, parsedEnvironment,
                "production or development, where an app is configured for both."),
            .init("channel", value: "ID", "The channel, as create and list print it.") {
                options, text throws(UsageError) in
                guard !text.isEmpty, text.utf8.count <= 1_000, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
                else {
                    throw UsageError("expected a channel id, as create and list print it")
                }
                options.channel = text
            },
            .init(
                "storage", value: "POLICY",
                "What a new channel keeps for devices that cannot be reached: none (for frequent updates; its broadcasts take apns-expiration 0 only) or most-recent (the last message, for 8 hours at most). It cannot be changed."
            ) { options, text throws(UsageError) in options.storage = try OptionValue.choice(text) },
        ] + AppFlags.keyOptions.map { $0.within(\.flags) } + [
            .init("manage-host", value: "HOST", "A server other than Apple's, such as the simulator's.") {
                $0.flags.manageHost = $1
            },
            .init("manage-port", value: "PORT", "Its port (default 2196; 2195 in development).") {
                $0.flags.managePort = $1
            },
            AppFlags.caFileOption.within(\.flags),
            .init(
                "deadline", value: "TIME", to: \.deadline, OptionValue.duration,
                "How long to wait for the answer (default 30s)."),
            .init("format", value: "NAME", choice: \.format, "text (default) or json: one object, refusals too."),
        ]

    /// What is missing or does not fit together, if anything.
    var complaint: String? {
        var others = flags
        others.bundleIDs = []
        if file == nil, others == AppFlags() { return "needs --config FILE, or flags for one app" }
        if file != nil, others != AppFlags() { return "give either --config or the flags for one app, not both" }
        switch action {
        case .create:
            if storage == nil { return "needs --storage none or --storage most-recent, which cannot be changed later" }
            if channel != nil { return "--channel is for read and delete: Apple makes a new channel's id" }
        case .read, .delete:
            if channel == nil { return "needs --channel ID" }
            if storage != nil { return "--storage is for create" }
        case .list:
            if channel != nil { return "--channel is for read and delete" }
            if storage != nil { return "--storage is for create" }
        }
        return nil
    }

    /// What is asked of Apple; `complaint` was `nil`.
    var operation: ManagementRequest.Operation {
        switch action {
        case .create: .create(storesMostRecent: storage == .mostRecent)
        case .list: .list
        case .read: .read(channel: channel ?? "")
        case .delete: .delete(channel: channel ?? "")
        }
    }

    /// The app and its bundle id, or the exit after what is wrong has been printed.
    func place() -> Result<(AppSettings, String), Exit> {
        checked { () throws(ConfigurationError) in try flags.loaded(file, environment) }.flatMap {
            place(in: $0.configuration)
        }
    }

    private func place(in configuration: WorkerConfiguration) -> Result<(AppSettings, String), Exit> {
        let wanted = flags.bundleIDs.first
        let fitting = configuration.apps.filter { settings in
            (app == nil || settings.name == app) && (environment == nil || settings.environment == environment)
                && (wanted == nil || settings.bundleIDs.contains(wanted ?? ""))
        }
        guard let settings = fitting.first else {
            complain("apns-worker channels: no app of the configuration has that name, environment and bundle id")
            return .failure(Exit(code: .wrongUsage))
        }
        guard fitting.count == 1 else {
            let names = fitting.map(\.name).joined(separator: ", ")
            complain("apns-worker channels: which app? say --app NAME, one of \(names)")
            return .failure(Exit(code: .wrongUsage))
        }
        guard let bundleID = wanted ?? (settings.bundleIDs.count == 1 ? settings.bundleIDs.first : nil) else {
            let ids = settings.bundleIDs.joined(separator: ", ")
            complain("apns-worker channels: which bundle id? say --bundle-id ID, one of \(ids)")
            return .failure(Exit(code: .wrongUsage))
        }
        return .success((settings, bundleID))
    }
}
