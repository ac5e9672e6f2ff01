import Testing

@testable import Kafka

struct FollowedTopicTests {
    private func partition(_ number: Int32) -> TopicPartition { TopicPartition("t", number) }

    private func topic(_ ranges: (Int64, Int64)...) -> FollowedTopic {
        var all: [TopicPartition: (start: Int64, end: Int64)] = [:]
        for (number, range) in ranges.enumerated() { all[partition(Int32(number))] = (range.0, range.1) }
        return FollowedTopic("t", all)
    }

    @Test func `It is caught up where its logs end, whatever stands there`() {
        var topic = topic((0, 3), (5, 5))
        #expect(!topic.isCaughtUp)
        topic.passed(partition(0), to: 2)
        #expect(!topic.isCaughtUp)
        // The end of a transaction is no record.
        topic.passed(partition(0), to: 3)
        #expect(topic.isCaughtUp)
    }

    @Test func `Partitions that are added are read from their beginnings, once`() {
        var topic = topic((7, 7))
        #expect(topic.found(1) == FollowedTopic.Change())
        #expect(topic.found(3) == FollowedTopic.Change(begun: [partition(1), partition(2)]))
        #expect(topic.found(3) == FollowedTopic.Change())
        #expect(topic.isCaughtUp)
    }

    @Test func `What two looks miss is gone, and is read anew when it is back`() {
        var topic = topic((0, 9), (4, 4))
        #expect(topic.missed() == FollowedTopic.Change())
        // A broker that has just started.
        #expect(topic.found(2) == FollowedTopic.Change())
        #expect(topic.missed() == FollowedTopic.Change())
        #expect(topic.missed() == FollowedTopic.Change(ended: [partition(0), partition(1)]))
        #expect(topic.missed() == FollowedTopic.Change())
        #expect(topic.found(2) == FollowedTopic.Change(begun: [partition(0), partition(1)], isAnew: true))
        #expect(topic.isCaughtUp)
        #expect(topic.found(2) == FollowedTopic.Change())
    }

    @Test func `One with fewer partitions is another one`() {
        var topic = topic((3, 3), (4, 4), (5, 5))
        #expect(
            topic.found(2)
                == FollowedTopic.Change(begun: [partition(0), partition(1)], ended: [partition(2)], isAnew: true))
        // It gets as many as the first one had.
        #expect(topic.found(3) == FollowedTopic.Change(begun: [partition(2)]))
    }

    @Test func `What retention takes is one partition's matter`() {
        var topic = topic((3, 8), (4, 4))
        #expect(topic.lacks(partition(0), of: 20..<30) == FollowedTopic.Change(begun: [partition(0)]))
        #expect(topic.isCaughtUp)
    }

    @Test func `A log that ends before what was read is another topic's, and nothing is begun twice`() {
        var topic = topic((3, 3), (0, 0), (9, 9))
        topic.passed(partition(0), to: 12)
        #expect(
            topic.lacks(partition(0), of: 0..<2)
                == FollowedTopic.Change(begun: [partition(0), partition(1), partition(2)], isAnew: true))
        #expect(topic.lacks(partition(1), of: 5..<9) == FollowedTopic.Change(begun: [partition(1)]))
        #expect(topic.found(2) == FollowedTopic.Change(ended: [partition(2)]))
        #expect(topic.found(2) == FollowedTopic.Change())
    }
}
