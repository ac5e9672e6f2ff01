/// What may go wrong in a world.
struct SimulatedFaults {
    var name: String
    /// Sends whose completion stays unknown.
    var doubts = true
    /// Connections that are lost, streams that are reset, answers that never come. Without it connections may still
    /// fall silent, and die under what kills them.
    var breaks = true
    /// Connections that fall silent, for minutes on end.
    var silence = true
    /// Requests under which every connection dies, in so many worlds of a hundred.
    var poison = 15
    var crashes = true
    /// Partitions that are lost, and owners that learn it late.
    var losses = true
    /// Commit metadata that comes back damaged, or as somebody else's.
    var damage = true
    /// Refused commits, a broker that goes away, one that writes nothing, producers that have to be made anew, wall
    /// clocks that jump: none of these makes anybody send twice.
    var refusals = true
    /// Logs that are made anew, cut, or lose their first records; commits that somebody else wrote.
    var changes = true
    /// Sessions that are lost for a while.
    var lapses = true
    /// Thousands of records, and some that take long.
    var isLong = false

    static let everything = SimulatedFaults(name: "every fault")

    /// Rebalances, stops, GOAWAYs only: nothing is sent twice.
    static let none = faultless("without a fault")

    /// Sessions are lost and come back to whoever had them: nothing is sent twice.
    static let lapsing = faultless("lost sessions", lapses: true)

    /// What is settled lies far above what is open: no map is cut, and nothing is sent twice.
    static let long = faultless("long spans", isLong: true)

    private static func faultless(_ name: String, lapses: Bool = false, isLong: Bool = false) -> SimulatedFaults {
        SimulatedFaults(
            name: name, doubts: false, breaks: false, silence: false, poison: 0, crashes: false, losses: false,
            damage: false, changes: false, lapses: lapses, isLong: isLong)
    }

    /// A dead network abandons nobody.
    static let deadNetwork = SimulatedFaults(name: "dead network", breaks: false, poison: 0)

    /// What kills its connections takes nobody with it.
    static let poisonous = SimulatedFaults(name: "poison", breaks: false, silence: false, poison: 100)

    /// Of ten worlds, five know every fault.
    static func of(seed: UInt64) -> SimulatedFaults {
        switch seed % 20 {
        case 0...9: .everything
        case 10...12: .none
        case 13, 14: .lapsing
        case 15: .long
        case 16, 17: .deadNetwork
        default: .poisonous
        }
    }

    /// Whether nobody may be abandoned but by what APNs answers.
    var abandonsNobody: Bool { doubts && !breaks }
}
