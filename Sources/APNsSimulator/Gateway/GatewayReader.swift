/// Cuts what a connection brings into frames, in place: only a frame that came in parts is put together, in memory that
/// is allocated once. One thread.
final class GatewayReader {
    /// A frame's beginning, until the rest is there.
    private let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: GatewayFrame.limit, alignment: 16)
    private var kept = 0
    /// What came was no frame: nothing more is read.
    private(set) var isLost = false

    deinit { memory.deallocate() }

    /// Hands over each frame that is complete now, lent for the call.
    func read(_ bytes: UnsafeRawBufferPointer, _ take: (GatewayFrame) -> Void) {
        var at = complete(bytes, take)
        while !isLost, at < bytes.count {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[at...])
            switch GatewayFrame.extent(of: rest) {
            case .frame(let size) where size <= rest.count:
                take(GatewayFrame(UnsafeRawBufferPointer(rebasing: rest[..<size])))
                at += size
            case .frame, .unknown:
                keep(rest)
                return
            case .noFrame: isLost = true
            }
        }
    }

    /// Completes the frame whose beginning was kept; returns how many bytes that took.
    private func complete(_ bytes: UnsafeRawBufferPointer, _ take: (GatewayFrame) -> Void) -> Int {
        var at = 0
        while kept > 0, !isLost {
            let known = UnsafeRawBufferPointer(rebasing: memory[..<kept])
            let wanted: Int
            switch GatewayFrame.extent(of: known) {
            case .frame(let size) where size <= kept:
                kept = 0
                take(GatewayFrame(known))
                return at
            case .frame(let size): wanted = size
            case .unknown(let size): wanted = size
            case .noFrame:
                isLost = true
                return at
            }
            let count = min(wanted - kept, bytes.count - at)
            if count == 0 { return at }
            keep(UnsafeRawBufferPointer(rebasing: bytes[at..<at + count]))
            at += count
        }
        return at
    }

    private func keep(_ bytes: UnsafeRawBufferPointer) {
        UnsafeMutableRawBufferPointer(rebasing: memory[kept...]).copyMemory(from: bytes)
        kept += bytes.count
    }
}
