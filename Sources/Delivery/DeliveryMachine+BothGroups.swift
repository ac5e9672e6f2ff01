/// For a caller that commits both groups together: gone as soon as none does.
extension DeliveryMachine {
    package mutating func takeCommit(now: DeliveryTime) -> [CommitEntry] {
        guard flights.allSatisfy(\.partitions.isEmpty) else { return [] }
        return takeCommit(of: .requests, now: now) + takeCommit(of: .retries, now: now)
    }

    package mutating func commitFinished(_ outcomes: [CommitOutcome]?, now: DeliveryTime) {
        let count = flights[CommitGroup.requests.rawValue].partitions.count
        commitFinished(of: .requests, outcomes.map { Array($0.prefix(count)) }, now: now)
        commitFinished(of: .retries, outcomes.map { Array($0.dropFirst(count)) }, now: now)
    }
}
