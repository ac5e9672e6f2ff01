import Foundation
import TestSupport
import Testing

/// The built worker as a process, between a real broker and a real server, with producers that are not ours. Rows of
/// tests side by side, in each one after the other. None should be much longer than the rest: the run takes at least as
/// long as the longest.
@Suite(.places) enum EndToEnd {
    /// Their processes take three fifths of two cores while nine rows run; the other rows stand in line. Some tests
    /// measure times.
    fileprivate static let places = Waiting(atOnce: 11)

    /// What becomes of notifications, at load; each run ends in the audit of three books.
    @Suite(.serialized) enum Deliveries {}

    /// The same among faults that a seed chooses, at brokers of their own.
    @Suite(.serialized) enum Chaos {}

    /// What becomes of each kind of record, however large or damaged.
    @Suite(.serialized) enum Records {}

    /// What goes wrong around a worker: networks that swallow, members that come and go, deaths.
    @Suite(.serialized) enum Troubles {}

    /// What Apple refuses, or never answers.
    @Suite(.serialized) enum Refusals {}

    /// The binary protocol.
    @Suite(.serialized) enum Gateways {}

    /// Topics that change.
    @Suite(.serialized) enum Logs {}

    /// What a broker says falsely, or does not say.
    @Suite(.serialized) enum FalseAnswers {}

    /// At a broker that tests stop, freeze and take rights away at (`KafkaBroker.expendable`).
    @Suite(.serialized) enum Outages {}

    /// The feedback service, also while the broker is away.
    @Suite(.serialized) enum Feedback {}

    /// Programs of others: clients in other languages, one with our library, proxies, a database.
    @Suite(.serialized) enum Services {}

    /// Commands beside `run`.
    @Suite(.serialized) enum Commands {}

    /// Starts, also wrong ones, reloads, the pages, and the demo.
    @Suite(.serialized) enum Starts {}
}

extension Trait where Self == Waiting {
    fileprivate static var places: Self { EndToEnd.places }
}

extension Trait where Self == ConditionTrait {
    /// A test that stops its broker, or takes rights away at it.
    static var ownBroker: Self { .enabled(if: KafkaBroker.home != nil, "needs KAFKA_HOME, for a broker of its own") }

    /// A test of minutes: `Docker/test --all` runs it.
    static var long: Self {
        .enabled(if: Long.isWanted, "long; Docker/test --all runs it")
    }
}
