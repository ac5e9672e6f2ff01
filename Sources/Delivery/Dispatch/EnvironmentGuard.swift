/// Notices when Apple calls more than half of an app's last 1,000 device tokens bad, or all of its first 20, which most
/// often means that they belong to the other environment, and asks to slow down then: Apple disconnects providers that
/// go on so. Releases when fewer than half of the last 100 were bad. A value machine.
struct EnvironmentGuard {
    /// In flight at most, until the app had its first 200 or 410.
    static let unprovenLimit = 20
    static let firstAnswers = 20
    static let longWindow = 1_000
    static let shortWindow = 100

    var isOff = false {
        didSet { if isOff { isTripped = false } }
    }
    /// Some token was good once.
    private(set) var isProven = false
    private(set) var isTripped = false
    /// Which of the last answers were bad. Empty until one was.
    private var window: [Bool] = []
    /// Answers since the window began.
    private var count = 0
    private var badInLong = 0
    private(set) var badInShort = 0
    private var isFirstWindow = true

    init(isOff: Bool) { self.isOff = isOff }

    /// - Parameters:
    ///   - isBad: BadDeviceToken or DeviceTokenNotForTopic.
    ///   - isProof: 200 or 410.
    /// - Returns: whether `limit` may have changed.
    @inline(__always)
    mutating func answered(isBad: Bool, isProof: Bool) -> Bool {
        if isOff { return false }
        if badInLong == 0, !isBad, isProven {
            count &+= 1
            return false
        }
        return note(isBad: isBad, isProof: isProof)
    }

    private mutating func note(isBad: Bool, isProof: Bool) -> Bool {
        push(isBad)
        if isProof, !isProven {
            isProven = true
        } else if isTripped, badInShort * 2 < min(Self.shortWindow, count) {
            isTripped = false
            (window, count, badInLong, badInShort, isFirstWindow) = ([], 0, 0, 0, false)
        } else if !isTripped,
            badInLong * 2 > Self.longWindow || isFirstWindow && count == Self.firstAnswers && badInLong == count
        {
            isTripped = true
        } else {
            return false
        }
        return true
    }

    private mutating func push(_ isBad: Bool) {
        if isBad, window.isEmpty { window = Array(repeating: false, count: Self.longWindow) }
        if !window.isEmpty {
            let index = count % Self.longWindow
            if window[index] { badInLong -= 1 }
            if count >= Self.shortWindow, window[(count - Self.shortWindow) % Self.longWindow] { badInShort -= 1 }
            window[index] = isBad
        }
        if isBad {
            badInLong += 1
            badInShort += 1
        }
        count &+= 1
    }

    /// How many requests may be in flight, of so many that the transport takes.
    func limit(of capacity: Int) -> Int {
        if isOff { return capacity }
        let tripped = isTripped ? min(capacity, max(1, capacity / 10)) : capacity
        return isProven ? tripped : min(tripped, Self.unprovenLimit)
    }
}
