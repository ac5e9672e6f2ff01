import Configuration
import Glibc
import Kafka
import PushRecords

/// `apns-worker send`.
func send(_ arguments: [String]) -> ExitCode {
    switch parsed(SendOptions.table, arguments, SendOptions(), complaint: { $0.complaint }) {
    case .failure(let exit): return exit.code
    case .success(let options):
        guard let token = options.token else { return .wrongUsage }
        do throws(CommandFailure) {
            let notification = try options.notification()
            let record = try checkedRecord(of: notification, to: token)
            switch options.via {
            case .kafka:
                switch loaded(options.file ?? "") {
                case .failure(let exit): return exit.code
                case .success(let (configuration, cluster)):
                    return sendViaKafka(record, configuration, cluster, options)
                }
            case .direct:
                switch checked({ () throws(ConfigurationError) in
                    try options.flags.loaded(options.file, options.environment)
                }) {
                case .failure(let exit): return exit.code
                case .success(let loaded): return sendDirectly(record, loaded.configuration, options)
                }
            }
        } catch {
            complain("apns-worker send: \(error)")
            return .failed
        }
    }
}

/// The request's record; throws what a worker would refuse.
private func checkedRecord(
    of notification: PushNotification<RawPayload>, to token: DeviceToken
) throws(CommandFailure) -> RequestRecord {
    do throws(RequestError) {
        return try notification.payloadRecord(to: token)
    } catch {
        throw CommandFailure(error.description)
    }
}

extension SendOptions {
    /// The notification that the options ask for. Throws when the payload cannot be read, or is none.
    func notification() throws(CommandFailure) -> PushNotification<RawPayload> {
        var notification = PushNotification(
            json: try payloadBytes(), pushType: pushType, topic: topic.map { .exactly($0) })
        notification.app = app
        notification.environment = environment
        notification.priority = priority
        notification.expiration = expiration
        notification.notBefore = notBefore
        notification.collapseID = collapseID
        notification.apnsID = id
        return notification
    }

    private func payloadBytes() throws(CommandFailure) -> [UInt8] {
        guard let payload else {
            do throws(RequestError) {
                return try AlertPayload(title: title, body: alert).json()
            } catch {
                throw CommandFailure(error.description)
            }
        }
        guard payload == "-" || payload.hasPrefix("@") else { return Array(payload.utf8) }
        do throws(FileError) {
            let limit = Deadline(after: deadline)
            var bytes = try readFile(payload == "-" ? "/dev/stdin" : String(payload.dropFirst())) {
                limit.awaits(POLLIN, of: $0)
            }
            // What an editor or `echo` put behind it.
            while let last = bytes.last, last == 0x0A || last == 0x0D { bytes.removeLast() }
            return bytes
        } catch {
            throw CommandFailure("--payload: \(error)")
        }
    }
}
