import Bytes
import PushRecords

@testable import Delivery

/// Changes of apps by operators, and of their reachability by the network.
extension SimulatedWorld {
    /// Changes the configuration of all workers at once.
    func reload() {
        switch Int.random(in: 0..<4, using: &random) {
        case 0: change { $0.isPaused.toggle() }
        case 1: change { $0.rateLimit = random.chance(50) ? .random(in: 20...300, using: &random) : 0 }
        case 2:
            let app = Int.random(in: 0..<allApps.count, using: &random)
            for worker in workers where app < worker.capacities.count {
                worker.machine.credentialReplaced(AppIndex(app), now: time(worker))
            }
            return
        default:
            // Either the last app is removed, or all are present again in another order.
            if apps.count == allApps.count, apps.count > 1 {
                everRemoved.insert(apps.removeLast().name)
            } else {
                apps = allApps.reversed()
            }
        }
        for worker in workers { worker.reload(apps, now: time(worker)) }
    }

    private func change(_ body: (inout AppRoute) -> Void) {
        body(&apps[Int.random(in: 0..<apps.count, using: &random)])
    }

    /// Makes an app's host unreachable, or reachable again.
    func changeReach(_ worker: SimulatedWorker) {
        let app = Int.random(in: 0..<worker.capacities.count, using: &random)
        if worker.capacities[app] > 0 {
            worker.capacities[app] = 0
        } else {
            worker.capacities[app] = .random(in: 1...60, using: &random)
        }
        // Both reports may come in either order.
        if random.chance(50) {
            worker.machine.setReachable(AppIndex(app), worker.capacities[app] > 0, now: time(worker))
        }
        worker.machine.setCapacity(AppIndex(app), requests: worker.capacities[app], now: time(worker))
        worker.machine.setReachable(AppIndex(app), worker.capacities[app] > 0, now: time(worker))
    }

    /// Removes all faults and limits.
    func heal() {
        apps = allApps
        for index in apps.indices { apps[index].rateLimit = 0 }
        for worker in workers {
            worker.reload(apps, now: time(worker))
            for app in worker.capacities.indices {
                if worker.capacities[app] == 0 { worker.capacities[app] = 10 }
                worker.machine.setReachable(AppIndex(app), true, now: time(worker))
                worker.machine.setCapacity(AppIndex(app), requests: worker.capacities[app], now: time(worker))
                worker.machine.credentialReplaced(AppIndex(app), now: time(worker))
            }
        }
    }

    /// Checks that removed or paused apps send nothing, and that others keep their rate limit.
    func checkApp(_ id: NotificationID, _ worker: SimulatedWorker, _ machine: borrowing DeliveryMachine) {
        let notification = machine.store[id.slot]
        let app = Int(notification.app)
        let breaker = machine.dispatch.breakers.apps[app]
        if breaker.isRemoved || breaker.isPaused || breaker.hasOpenHost {
            breaks("a request was sent for an app that is removed, paused or unreachable")
        }
        let isProbe = machine.dispatch.breakers.circuit(probedBy: id.slot, in: machine.store) != nil
        if breaker.hasOpenCredential, !isProbe {
            breaks("a request other than the probe was sent while the circuit was open")
        }
        if machine.dispatch.breakers.openTopic(of: id.slot, in: machine.store) != nil, !isProbe {
            breaks("a request other than the probe was sent while its topic's circuit was open")
        }
        let rate = machine.apps.route(app).rateLimit
        guard rate > 0 else { return }
        var book = worker.rates[app] ?? (sinceNs: ns, sent: 0)
        book.sent += 1
        worker.rates[app] = book
        if book.sent > Int((ns - book.sinceNs) / 1_000) * rate / 1_000_000 + rate / 20 + 2 {
            let ms = (ns - book.sinceNs) / 1_000_000
            breaks("\(book.sent) requests were sent in \(ms) ms with a rate limit of \(rate) per second")
        }
    }
}
