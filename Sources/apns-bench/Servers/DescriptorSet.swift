import CLinux
import Glibc

/// What select(2) looks at: descriptors below 1,024. Its macros are not imported.
struct DescriptorSet {
    private var raw = fd_set()
    private static let limit = MemoryLayout<fd_set>.size * 8

    /// An array of longs, the lowest bit first; on a little-endian machine that is byte for byte.
    mutating func insert(_ descriptor: Int32) {
        let place = Int(descriptor)
        precondition(place < Self.limit, "select takes descriptors below 1,024")
        withUnsafeMutableBytes(of: &raw) { $0[place / 8] |= 1 << UInt8(place % 8) }
    }

    func contains(_ descriptor: Int32) -> Bool {
        let place = Int(descriptor)
        return withUnsafeBytes(of: raw) { $0[place / 8] & 1 << UInt8(place % 8) != 0 }
    }

    /// Waits until one of them is ready, and leaves in them what is. false: it failed, see errno.
    static func wait(_ readable: inout DescriptorSet, _ writable: inout DescriptorSet, atMostNs: Int64) -> Bool {
        var time = timespec(tv_sec: Int(atMostNs / 1_000_000_000), tv_nsec: Int(atMostNs % 1_000_000_000))
        if pselect(Int32(limit), &readable.raw, &writable.raw, nil, &time, nil) >= 0 { return true }
        // The sets are not changed then (select(2)): nothing is ready.
        readable = DescriptorSet()
        writable = DescriptorSet()
        return errno == EINTR
    }
}
