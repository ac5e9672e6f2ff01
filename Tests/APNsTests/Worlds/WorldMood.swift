/// The probabilities, in percent, of a host's faults for a while.
struct WorldMood {
    /// Faults of a dial, of a request, and of a connection from time to time.
    enum Fault {
        /// With `isMute`, the host sends nothing, not even SETTINGS.
        case refusesDial, slowDial, isMute, closesAtOnce
        /// With `hasBroken`, every answer is a server error. With `isLate`, answers take seconds.
        case refuses, resets, swallows, halves, errs, hasBroken, isLate
        /// With `splits`, bytes arrive in pieces. With `lies`, answers about requests are false.
        case goesAway, changesSettings, stalls, isDeaf, fullKernel, ends, talksNonsense, splits, lies
    }

    private var percents: [Fault: Int] = [:]

    static let well = WorldMood()

    /// The percentage of moods that have a fault, and the fault's probability in them.
    private static let faults: [(fault: Fault, moods: Int, percents: ClosedRange<Int>)] = [
        (.refusesDial, 30, 10...100), (.slowDial, 30, 10...80), (.isMute, 30, 10...60), (.closesAtOnce, 30, 10...80),
        (.refuses, 30, 1...100), (.resets, 30, 1...50), (.swallows, 30, 1...60), (.halves, 30, 1...30),
        (.errs, 30, 1...100), (.hasBroken, 5, 100...100), (.isLate, 30, 1...60), (.goesAway, 30, 5...60),
        (.changesSettings, 30, 5...60), (.stalls, 30, 5...40), (.isDeaf, 30, 5...40), (.fullKernel, 30, 5...40),
        (.ends, 30, 5...50), (.talksNonsense, 10, 1...10), (.splits, 30, 20...100), (.lies, 30, 5...30),
    ]

    static func drawn(_ chronicle: WorldChronicle) -> WorldMood {
        var mood = WorldMood()
        if chronicle.chance(20) { return mood }
        for (fault, moods, percents) in faults where chronicle.chance(moods) {
            mood.percents[fault] = chronicle.number(percents)
        }
        return mood
    }

    subscript(_ fault: Fault) -> Int { percents[fault] ?? 0 }
}
