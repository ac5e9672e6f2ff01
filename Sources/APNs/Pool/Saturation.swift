/// Whether all streams were taken for a while, though the thread was not what held them up: a value machine.
package struct Saturation: Sendable {
    /// So long every stream must have been taken at every turn's end.
    private static let periodNs: Int64 = 100_000_000

    private var sinceNs: Int64 = 0
    private var busyNs: Int64 = 0

    package init() {}

    /// A turn of the thread, from `beganNs` to `endedNs`, after which every stream was taken, or not.
    ///
    /// - Returns: true once a period: more connections would help.
    package mutating func turned(isFull: Bool, beganNs: Int64, endedNs: Int64) -> Bool {
        guard isFull else {
            sinceNs = 0
            return false
        }
        if sinceNs == 0 {
            sinceNs = max(1, endedNs)
            busyNs = 0
            return false
        }
        busyNs += endedNs - beganNs
        let spanNs = endedNs - sinceNs
        guard spanNs >= Self.periodNs else { return false }
        let hadTime = busyNs < spanNs / 5 * 4
        sinceNs = endedNs
        busyNs = 0
        return hadTime
    }
}
