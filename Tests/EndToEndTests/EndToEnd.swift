import Foundation
import TestSupport
import Testing

/// The built worker as a process, between a real broker and a real server, with producers that are not ours. Rows of
/// tests side by side, in each one after the other: one that loads the machine, and two that mostly wait.
@Suite enum EndToEnd {
    /// What becomes of notifications, at load; each run ends in the audit of three books.
    @Suite(.serialized) enum Deliveries {}

    /// What goes wrong around a worker: outages, refusals, topics that change, networks that swallow, deaths.
    @Suite(.serialized) enum Troubles {}

    /// Commands, pages, reloads, stops, and what is said of a wrong start.
    @Suite(.serialized) enum Commands {}
}

extension Trait where Self == ConditionTrait {
    /// A test that stops its broker, or takes rights away at it.
    static var ownBroker: Self { .enabled(if: KafkaBroker.home != nil, "needs KAFKA_HOME, for a broker of its own") }

    /// A test of minutes: `Docker/test --all` runs it.
    static var long: Self {
        .enabled(if: ProcessInfo.processInfo.environment["APNS_WORKER_LONG"] != nil, "long; Docker/test --all runs it")
    }
}
