internal import Configuration
internal import Delivery
internal import EventLoop
internal import Observability

extension PushWorker {
    func beginStopping() {
        guard stopping == nil, publisher != nil else { return }
        stopping = .draining
        for reader in readers {
            reader.leave(&machine, limitNs: configuration.drain.shutdown.nanoseconds, now: now)
        }
    }

    func moveStopping(_ now: DeliveryTime) {
        switch stopping {
        case nil: return
        case .draining:
            guard readers.allSatisfy(\.hasLeft) else { break }
            stopping = .flushing(deadlineNs: now.ns + Self.flushNs)
        case .flushing(let deadlineNs):
            guard publisher?.isIdle == true || now.ns >= deadlineNs else { break }
            for app in apps.indices where !appRows[app].isRemoved { link?.post(AppIndex(app), .close) }
            stopping = .closing(deadlineNs: now.ns + Self.closeNs)
        case .closing(let deadlineNs):
            guard closedApps.count == apps.count || now.ns >= deadlineNs else { break }
            loop.stop()
        }
        // What remains is waited for in short steps: leaving a group has no event of its own.
        loop.schedule(afterNs: 5_000_000) {}
    }

    func fail(_ reason: String) {
        logger.error(.worker, "cannot go on", ["reason": "\(reason)"])
        ending = .failed(reason)
        loop.stop()
    }
}
