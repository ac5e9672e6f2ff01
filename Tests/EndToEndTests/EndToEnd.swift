import Foundation
import TestSupport
import Testing

/// The built worker as a process between a real broker and a real server, with producers of other projects. The rows
/// run side by side, the tests of a row one after the other. The run takes as long as the longest row.
@Suite(.places, .timeLimit(.minutes(20))) enum EndToEnd {
    /// This many tests at once keep two cores busy: most of them wait for a broker, a server or the clock.
    fileprivate static let places = Waiting(atOnce: 11)

    /// Notifications under load; each run ends in the audit of three books.
    @Suite(.serialized) enum Deliveries {}

    /// The same with faults drawn from a seed, at brokers of their own.
    @Suite(.serialized) enum Chaos {}

    /// Each kind of record, however large or damaged.
    @Suite(.serialized) enum Records {}

    /// Failing networks, members that come and go, deaths.
    @Suite(.serialized) enum Troubles {}

    /// Refusals, and requests that are never answered.
    @Suite(.serialized) enum Refusals {}

    /// The binary protocol.
    @Suite(.serialized) enum Gateways {}

    /// Topics that change.
    @Suite(.serialized) enum Logs {}

    /// Brokers that do not answer.
    @Suite(.serialized) enum FalseAnswers {}

    /// At a broker that tests stop and freeze (`KafkaBroker.expendable`).
    @Suite(.serialized) enum Outages {}

    /// Missing rights and topics.
    @Suite(.serialized) enum Rights {}

    /// The feedback service.
    @Suite(.serialized) enum Feedback {}

    /// Other programs: clients in other languages and with PushRecords, proxies, a database.
    @Suite(.serialized) enum Services {}

    /// Commands beside `run`.
    @Suite(.serialized) enum Commands {}

    /// Starts, reloads, the pages, and the demo.
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
