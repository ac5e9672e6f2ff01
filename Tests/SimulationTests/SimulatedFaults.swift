/// The faults that may occur in a world.
struct SimulatedFaults {
    var name: String
    /// Sends without a known completion.
    var doubts = true
    /// Lost connections, reset streams and missing answers. Without this, connections may still fall silent or be ended
    /// by poisonous requests.
    var breaks = true
    /// Connections that are silent for minutes.
    var silence = true
    /// The percentage of worlds with requests that end every connection they are on.
    var poison = 15
    var crashes = true
    /// Lost partitions, and owners that detect the loss late.
    var losses = true
    /// Commit metadata that is damaged or from other software.
    var damage = true
    /// Refused commits, unavailable brokers, failed writes, rebuilt producers and stepped wall clocks. None of these
    /// causes duplicates.
    var refusals = true
    /// Topics that are recreated or truncated or lose their first records, and commits of other software.
    var changes = true
    /// Sessions that are lost temporarily.
    var lapses = true
    /// Thousands of records, some of which take long.
    var isLong = false

    static let everything = SimulatedFaults(name: "every fault")

    /// Only rebalances, stops and GOAWAYs. Nothing is sent twice.
    static let none = faultless("without a fault")

    /// Sessions are lost and return to the same owner. Nothing is sent twice.
    static let lapsing = faultless("lost sessions", lapses: true)

    /// Settled records are far above open ones. No map is truncated, and nothing is sent twice.
    static let long = faultless("long spans", isLong: true)

    private static func faultless(_ name: String, lapses: Bool = false, isLong: Bool = false) -> SimulatedFaults {
        SimulatedFaults(
            name: name, doubts: false, breaks: false, silence: false, poison: 0, crashes: false, losses: false,
            damage: false, changes: false, lapses: lapses, isLong: isLong)
    }

    /// The network is dead for minutes, and no notification may be abandoned.
    static let deadNetwork = SimulatedFaults(name: "dead network", breaks: false, poison: 0)

    /// Some notifications end every connection they are on, and no other notification may be affected.
    static let poisonous = SimulatedFaults(name: "poison", breaks: false, silence: false, poison: 100)

    /// Returns the faults of a seed. Half of the worlds have every fault.
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

    /// Whether a notification may be abandoned only because of answers from APNs.
    var abandonsNobody: Bool { doubts && !breaks }
}
