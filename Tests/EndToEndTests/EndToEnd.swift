import Foundation
import TestSupport
import Testing

/// The built worker as a process between a real broker and a real server, with producers of other projects.
@Suite(.places, .timeLimit(.minutes(20))) enum EndToEnd {
    /// This many tests at once keep two cores busy: most of them wait for a broker, a server or the clock.
    fileprivate static let places = Waiting(atOnce: 16)

    /// Tests that stop and freeze a broker, one after the other (`KafkaBroker.expendable`).
    @Suite(.serialized) enum Outages {}
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
