import TestSupport
import Testing

/// Tests of the built worker as a process, with a real broker, a real server and producers of other projects.
@Suite(.places, .timeLimit(.minutes(20))) enum EndToEnd {
    /// The number of concurrent tests. This many keep two cores busy, because most tests wait for a broker, a server or
    /// the clock.
    fileprivate static let places = Waiting(atOnce: 16)

    /// Tests that stop and freeze a broker (`KafkaBroker.expendable`). They run one after the other.
    @Suite(.serialized) enum Outages {}
}

extension Trait where Self == Waiting {
    fileprivate static var places: Self { EndToEnd.places }
}

extension Trait where Self == ConditionTrait {
    /// A test that stops its own broker or revokes rights there.
    static var ownBroker: Self { .enabled(if: KafkaBroker.home != nil, "needs KAFKA_HOME, for a broker of its own") }

    /// A test that takes minutes. `Docker/test --all` runs it.
    static var long: Self {
        .enabled(if: Long.isWanted, "long; Docker/test --all runs it")
    }
}
