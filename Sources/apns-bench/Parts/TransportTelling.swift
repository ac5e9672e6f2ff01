import Delivery
import PushRecords

/// What a transport has told a part of the bench.
struct TransportTelling {
    /// Notifications that went all the way through.
    private(set) var count = 0
    private(set) var capacity = 0
    /// Of the last turn.
    var completions: [Completion] = []

    mutating func take(_ events: [TransportEvent]) {
        for event in events {
            switch event {
            case .completions(let batch):
                completions = batch.completions
                count += completions.count
            case .capacity(_, let requests): capacity = requests
            default: break
            }
        }
    }
}

extension PartInputs {
    /// A batch for a transport: as many devices, one payload.
    static func requests(_ count: Int) -> [OutgoingRequest] {
        let topic = lasting(Traffic.bundleID)
        let payload = lasting(Traffic.payload(7))
        return tokens(count).enumerated().map { index, token in
            OutgoingRequest(
                id: NotificationID(slot: NotificationSlot(UInt32(index)), generation: 0), token: token,
                payload: payload,
                headers: NotificationHeaders(topic: topic, priority: 10))
        }
    }
}
