import APNs
import Configuration
import JSON
import PushRecords
import Worker

/// `apns-worker channels`.
func manageChannels(_ arguments: [String]) -> ExitCode {
    let command = ChannelsOptions.table.command
    let (word, rest) = operand(arguments)
    return parsed(ChannelsOptions.table, rest, ChannelsOptions()).flatMap { options in
        choice(word, of: command, "", "what is to be done?", ChannelsOptions.Action.self).flatMap { action in
            var options = options
            options.action = action
            if let complaint = options.complaint {
                complain("\(command): \(complaint) (see \(command) --help)")
                return .failure(Exit(code: .wrongUsage))
            }
            return options.place().map { manage(options, $0, $1) }
        }
    }.code
}

private func manage(_ options: ChannelsOptions, _ app: AppSettings, _ bundleID: String) -> ExitCode {
    do throws(DirectSend.Failure) {
        let answer = try ChannelManagement.run(
            options.operation, bundleID: bundleID, of: app,
            timeoutNs: options.deadline.nanoseconds)
        if options.format == .json {
            say(answer.json + "\n")
        } else if answer.isFine {
            say(answer.text(options.action))
        } else {
            complain("apns-worker channels: \(answer.refusal)")
        }
        return answer.isFine ? .fine : .failed
    } catch {
        complain("apns-worker channels: \(error)")
        return .failed
    }
}

extension ChannelManagement.Answer {
    private static func storage(_ policy: Int?) -> String {
        switch policy {
        case 0: "storage=none"
        case 1: "storage=most-recent"
        default: "storage=\(policy.map(String.init) ?? "unknown")"
        }
    }

    /// For people; the ids of a list are a line each, for `xargs`.
    fileprivate func text(_ action: ChannelsOptions.Action) -> String {
        let place = "\(bundleID) app=\(app) environment=\(environment.text)"
        switch action {
        case .list: return (channels ?? []).map { "\($0)\n" }.joined()
        case .create: return "created \(channelID ?? "") \(place) \(Self.storage(storagePolicy))\n"
        case .read: return "\(channelID ?? "") \(place) \(Self.storage(storagePolicy))\n"
        case .delete: return "deleted \(channelID ?? "") \(place)\n"
        }
    }

    fileprivate var refusal: String {
        var text =
            "\(status) \(reason.map { String(printable($0.rawValue).dropFirst().dropLast()) } ?? "without a reason")"
        if let advice { text += ": \(advice)" }
        if let requestID { text += " (apns-request-id \(requestID))" }
        return text
    }

    fileprivate var json: String {
        var json = JSONWriter()
        json.beginObject()
        json.member("app", app)
        json.member("environment", environment.text)
        json.member("bundle_id", bundleID)
        json.member("status", status)
        json.member("reason", reason?.rawValue)
        json.member("advice", advice)
        json.member("request_id", requestID)
        json.member("channel_id", channelID)
        json.member("message_storage_policy", storagePolicy)
        if let channels {
            json.name("channels")
            json.beginArray()
            for channel in channels { json.value(channel) }
            json.endArray()
        }
        json.endObject()
        return json.text
    }
}
