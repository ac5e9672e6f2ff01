internal import Kafka

/// The groups whose coordinator could not be asked in two rounds of the watch in turn. Of a cluster's first group it is
/// not there for some seconds, until the offsets topic is made; of any, while another broker takes its place.
struct SilentGroups {
    private var before: Set<String> = []

    /// Takes what a round was told of the groups, and marks those of which it is not known yet whether that lasts.
    mutating func look(_ groups: inout [ClusterReport.Group]) {
        let silent = Set(groups.filter { Self.isPassing($0.code) }.map(\.id))
        for index in groups.indices {
            groups[index].hasLasted = !silent.contains(groups[index].id) || before.contains(groups[index].id)
        }
        before = silent
    }

    /// Whether an answer of this kind, or none, may be over by itself.
    private static func isPassing(_ code: KafkaCode?) -> Bool {
        switch code {
        case KafkaCode.none?, .unknownMember?, .groupAuthorizationFailed?: false
        case nil, _?: true
        }
    }
}
