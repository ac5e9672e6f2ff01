/// Detects that an app is probably configured for the wrong environment: Apple rejects more than half of its last 1,000
/// device tokens, or all of its first 20. The app is then slowed down, because Apple disconnects providers that send
/// many bad tokens. Full speed resumes when fewer than half of the last 100 tokens were bad.
struct EnvironmentGuard {
    /// The maximum number of requests in flight before the app's first 200 or 410.
    static let unprovenLimit = 20
    static let firstAnswers = 20
    static let longWindow = 1_000
    static let shortWindow = 100

    var isOff = false {
        didSet { if isOff { isTripped = false } }
    }
    /// Whether APNs has recognized a token (200 or 410).
    private(set) var isProven = false
    private(set) var isTripped = false
    /// For each of the last 1,000 answers, whether the token was bad.
    private var window = [Bool](repeating: false, count: longWindow)
    /// The number of answers since the guard was created or last ended a slowdown.
    private var count = 0
    private var badInLong = 0
    private(set) var badInShort = 0
    private var isFirstWindow = true

    init(isOff: Bool) { self.isOff = isOff }

    /// - Parameters:
    ///   - isBad: Whether the answer was BadDeviceToken or DeviceTokenNotForTopic.
    ///   - isProof: Whether the status was 200 or 410.
    @inline(__always)
    mutating func answered(isBad: Bool, isProof: Bool) {
        if isOff { return }
        if badInLong == 0, !isBad, isProven {
            count &+= 1
        } else {
            note(isBad: isBad, isProof: isProof)
        }
    }

    private mutating func note(isBad: Bool, isProof: Bool) {
        push(isBad)
        if isProof, !isProven {
            isProven = true
        } else if isTripped, badInShort * 2 < min(Self.shortWindow, count) {
            isTripped = false
            window = Array(repeating: false, count: Self.longWindow)
            (count, badInLong, badInShort, isFirstWindow) = (0, 0, 0, false)
        } else if !isTripped,
            badInLong * 2 > Self.longWindow || isFirstWindow && count == Self.firstAnswers && badInLong == count
        {
            isTripped = true
        }
    }

    private mutating func push(_ isBad: Bool) {
        let index = count % Self.longWindow
        if window[index] { badInLong -= 1 }
        if count >= Self.shortWindow, window[(count - Self.shortWindow) % Self.longWindow] { badInShort -= 1 }
        window[index] = isBad
        if isBad {
            badInLong += 1
            badInShort += 1
        }
        count &+= 1
    }

    /// Returns the maximum number of requests in flight, given the transport's capacity.
    func limit(of capacity: Int) -> Int {
        if isOff { return capacity }
        let tripped = isTripped ? min(capacity, max(1, capacity / 10)) : capacity
        return isProven ? tripped : min(tripped, Self.unprovenLimit)
    }
}
