import Foundation
import TestSupport
import Testing

/// The built worker as a process, between a real broker and a real server, with producers that are not ours. Rows of
/// tests side by side, in each one after the other: one that loads the machine, and others that mostly wait. None should be
/// much longer than the rest: the run takes as long as the longest.
@Suite(.waiting) enum EndToEnd {
    /// What becomes of notifications, at load; each run ends in the audit of three books.
    @Suite(.serialized) enum Deliveries {}

    /// What becomes of each kind of record, however large or damaged.
    @Suite(.serialized) enum Records {}

    /// What goes wrong around a worker: networks that swallow, members that come and go, deaths.
    @Suite(.serialized) enum Troubles {}

    /// What Apple refuses, or never answers.
    @Suite(.serialized) enum Refusals {}

    /// The binary protocol.
    @Suite(.serialized) enum Gateways {}

    /// Topics that change, and what a broker says falsely of them.
    @Suite(.serialized) enum Logs {}

    /// At a broker that tests stop, freeze and take rights away at (`KafkaBroker.expendable`).
    @Suite(.serialized) enum Outages {}

    /// Programs of others at both ends: clients in other languages, a database.
    @Suite(.serialized) enum Services {}

    /// Commands, pages, reloads, stops, and what is said of a wrong start.
    @Suite(.serialized) enum Commands {}
}

extension Trait where Self == ConditionTrait {
    /// A test that stops its broker, or takes rights away at it.
    static var ownBroker: Self { .enabled(if: KafkaBroker.home != nil, "needs KAFKA_HOME, for a broker of its own") }

    /// A test of minutes: `Docker/test --all` runs it.
    static var long: Self {
        .enabled(if: Long.isWanted, "long; Docker/test --all runs it")
    }
}
