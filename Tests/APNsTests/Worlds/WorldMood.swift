/// What a host does to its clients, and how likely it is in percent: for a while.
struct WorldMood {
    /// Of a dial, of a request, and of a connection now and then.
    enum Fault {
        /// `isMute` says nothing, not even SETTINGS.
        case refusesDial, slowDial, isMute, closesAtOnce
        /// `hasBroken` makes every answer a server error, and `isLate` takes seconds.
        case refuses, resets, swallows, halves, errs, hasBroken, isLate
        /// `splits` has what it says come in pieces. `lies` says of requests what is not so.
        case goesAway, changesSettings, stalls, isDeaf, fullKernel, ends, talksNonsense, splits, lies
    }

    private var percents: [Fault: Int] = [:]

    static let well = WorldMood()

    /// In how many of a hundred moods a fault is, and how likely it is then.
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
