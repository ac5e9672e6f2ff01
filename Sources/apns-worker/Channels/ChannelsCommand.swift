import APNs
import Configuration
import JSON
import PushRecords
import Worker

func manageChannels(_ arguments: [String]) throws -> ExitCode {
    let (action, options): (ChannelsOptions.Action, ChannelsOptions) = try parsed(
        ChannelsOptions.table, arguments, ChannelsOptions(), "action")
    let operation = try options.operation(action)
    let (app, bundleID) = try options.place()
    let answer = try ChannelManagement.run(
        operation, bundleID: bundleID, of: app, timeoutNs: options.deadline.nanoseconds)
    if options.format == .json {
        say(answer.json + "\n")
    } else if answer.isFine {
        say(answer.text(action))
    } else {
        complain("apns-worker channels: \(answer.refusal)")
    }
    return answer.isFine ? .fine : .failed
}

extension ChannelManagement.Answer {
    private var storage: String {
        "storage=" + (storagePolicy.map { [0: "none", 1: "most-recent"][$0] ?? "\($0)" } ?? "unknown")
    }

    /// Returns Apple's answer as text. A list has one channel id per line, for `xargs`.
    fileprivate func text(_ action: ChannelsOptions.Action) -> String {
        let place = "\(channelID ?? "") \(bundleID) app=\(app) environment=\(environment.text)"
        return switch action {
        case .list: (channels ?? []).map { "\($0)\n" }.joined()
        case .create: "created \(place) \(storage)\n"
        case .read: "\(place) \(storage)\n"
        case .delete: "deleted \(place)\n"
        }
    }

    fileprivate var refusal: String {
        var text = "\(status) \(reason.map { oneLine($0.rawValue, limit: 60) } ?? "without a reason")"
        if let advice { text += ": \(advice)" }
        if let requestID { text += " (apns-request-id \(requestID))" }
        return text
    }

    fileprivate var json: String {
        jsonObject { json in
            json.member("app", app)
            json.member("environment", environment.text)
            json.member("bundle_id", bundleID)
            json.member("status", status)
            json.member("reason", reason?.rawValue)
            json.member("advice", advice)
            json.member("request_id", requestID)
            json.member("channel_id", channelID)
            json.member("message_storage_policy", storagePolicy)
            guard let channels else { return }
            json.name("channels")
            json.beginArray()
            for channel in channels { json.value(channel) }
            json.endArray()
        }
    }
}
