/// How long a gateway's silence must last until it is acceptance: a value machine.
package struct BinaryPatience: Sendable, Equatable {
    /// From when a notification has left.
    package private(set) var windowNs: Int64
    private let longestNs: Int64

    package init(_ limits: BinaryConfiguration.WindowLimits) {
        windowNs = limits.durationNs
        longestNs = limits.longestNs
    }

    /// An error came for one that silence had accepted, `ageNs` after it left: a quarter more than was seen is waited
    /// from now on, or twice as long where that is not known.
    ///
    /// - Returns: whether it is longer now.
    package mutating func wasTooShort(ageNs: Int64?) -> Bool {
        guard windowNs < longestNs else { return false }
        windowNs = min(longestNs, max(windowNs, ageNs.map { $0 + $0 / 4 } ?? windowNs * 2))
        return true
    }
}
