import Configuration
import Kafka
import PushRecords

/// `apns-worker send`.
func send(_ arguments: [String]) -> ExitCode {
    switch parsed(SendOptions.table, arguments, SendOptions()) {
    case .failure(let exit): return exit.code
    case .success(let options):
        if let complaint = options.complaint {
            complain("apns-worker send: \(complaint) (see apns-worker send --help)")
            return .wrongUsage
        }
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
                switch checked({ () throws(ConfigurationError) in try options.configuration() }) {
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
