import Configuration
import Glibc
import Kafka
import PushRecords

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
        for (header, text) in texts { notification[header] = text }
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
