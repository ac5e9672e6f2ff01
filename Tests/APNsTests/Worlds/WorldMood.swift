/// How likely a host does what, in percent: for a while.
struct WorldMood {
    // Of a dial.
    var refusesDial = 0
    var slowDial = 0
    /// Says nothing, not even SETTINGS.
    var mute = 0
    /// Closes, or says GOAWAY, as soon as it is connected.
    var closesAtOnce = 0

    // Of a request.
    var refuses = 0
    var resets = 0
    var swallows = 0
    var halves = 0
    var errs = 0
    /// Every answer is a server error.
    var hasBroken = false
    /// Answers after seconds.
    var isLate = 0

    // Of a connection, now and then.
    var goesAway = 0
    var changesSettings = 0
    var stalls = 0
    var isDeaf = 0
    var fullKernel = 0
    var ends = 0
    var talksNonsense = 0
    /// What it says comes in pieces.
    var splits = 0
    /// It says of requests what is not so.
    var lies = 0

    static let well = WorldMood()

    static func drawn(_ chronicle: WorldChronicle) -> WorldMood {
        var mood = WorldMood()
        if chronicle.chance(20) { return mood }
        mood.refusesDial = chronicle.rare(10...100)
        mood.slowDial = chronicle.rare(10...80)
        mood.mute = chronicle.rare(10...60)
        mood.closesAtOnce = chronicle.rare(10...80)
        mood.refuses = chronicle.rare(1...100)
        mood.resets = chronicle.rare(1...50)
        mood.swallows = chronicle.rare(1...60)
        mood.halves = chronicle.rare(1...30)
        mood.errs = chronicle.rare(1...100)
        mood.hasBroken = chronicle.chance(5)
        mood.isLate = chronicle.rare(1...60)
        mood.goesAway = chronicle.rare(5...60)
        mood.changesSettings = chronicle.rare(5...60)
        mood.stalls = chronicle.rare(5...40)
        mood.isDeaf = chronicle.rare(5...40)
        mood.fullKernel = chronicle.rare(5...40)
        mood.ends = chronicle.rare(5...50)
        mood.talksNonsense = chronicle.chance(10) ? chronicle.number(1...10) : 0
        mood.splits = chronicle.rare(20...100)
        mood.lies = chronicle.rare(5...30)
        return mood
    }
}
