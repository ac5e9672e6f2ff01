import CNghttp2
import Glibc

// nghttp2 allocates about five times per request. With free lists per session, most allocations only pop a block from a
// list, and a release pushes the block back. The blocks return to malloc when the session ends, so until then a session
// keeps the memory of its peak use.

private enum Layout {
    static let classBytes = 64
    static let classCount = 16
    static let headerBytes = 16
}

/// The memory of one nghttp2 session, in 16 size classes from 64 to 1,024 bytes. Larger blocks are not pooled.
///
/// Not thread-safe. Every block has a 16-byte header with its size.
@unsafe
struct MemoryPool {
    /// Heads of the free lists. The first word of a free block points to the next one.
    private let heads: UnsafeMutablePointer<UnsafeMutableRawPointer?>

    init() {
        unsafe heads = .allocate(capacity: Layout.classCount)
        unsafe heads.initialize(repeating: nil, count: Layout.classCount)
    }

    /// Frees the blocks on the lists. Call it only after `nghttp2_session_del`.
    func free() {
        for index in 0..<Layout.classCount {
            var next = unsafe heads[index]
            while let block = unsafe next {
                unsafe next = unsafe block.load(as: UnsafeMutableRawPointer?.self)
                unsafe Glibc.free(block - Layout.headerBytes)
            }
        }
        unsafe heads.deallocate()
    }

    /// Returns the allocator for nghttp2, which copies the struct. `mem_user_data` must outlive the session
    /// (nghttp2.h).
    func callbacks() -> nghttp2_mem {
        unsafe nghttp2_mem(
            mem_user_data: heads,
            malloc: { size, data in unsafe MemoryPool.take(size, data) },
            free: { block, data in unsafe MemoryPool.give(block, data) },
            calloc: { count, size, data in
                guard let block = unsafe MemoryPool.take(count * size, data) else { return nil }
                unsafe memset(block, 0, count * size)
                return unsafe block
            },
            realloc: { block, size, data in
                guard let block = unsafe block else { return unsafe MemoryPool.take(size, data) }
                let held = unsafe (block - Layout.headerBytes).load(as: Int.self)
                if size <= held { return unsafe block }
                guard let larger = unsafe MemoryPool.take(size, data) else { return nil }
                unsafe memcpy(larger, block, held)
                unsafe MemoryPool.give(block, data)
                return unsafe larger
            })
    }

    @inline(__always)
    private static func take(_ size: Int, _ data: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
        guard size > 0, let data = unsafe data else { return nil }
        let index = (size &- 1) / Layout.classBytes
        let heads = unsafe data.assumingMemoryBound(to: UnsafeMutableRawPointer?.self)
        if index < Layout.classCount, let block = unsafe heads[index] {
            unsafe heads[index] = unsafe block.load(as: UnsafeMutableRawPointer?.self)
            return unsafe block
        }
        let bytes = index < Layout.classCount ? (index + 1) * Layout.classBytes : size
        guard let base = unsafe malloc(bytes + Layout.headerBytes) else { return nil }
        unsafe base.storeBytes(of: bytes, as: Int.self)
        return unsafe base + Layout.headerBytes
    }

    @inline(__always)
    private static func give(_ block: UnsafeMutableRawPointer?, _ data: UnsafeMutableRawPointer?) {
        guard let block = unsafe block, let data = unsafe data else { return }
        let index = unsafe ((block - Layout.headerBytes).load(as: Int.self) &- 1) / Layout.classBytes
        guard index < Layout.classCount else { return unsafe Glibc.free(block - Layout.headerBytes) }
        let heads = unsafe data.assumingMemoryBound(to: UnsafeMutableRawPointer?.self)
        unsafe block.storeBytes(of: heads[index], as: UnsafeMutableRawPointer?.self)
        unsafe heads[index] = unsafe block
    }
}

/// Slots at fixed addresses, so that nghttp2 can store pointers to them. The most recently released slot is reused
/// first.
@unsafe
struct SlotPool<Slot> {
    private(set) var all: [UnsafeMutablePointer<Slot>] = unsafe []
    private var idle: [UnsafeMutablePointer<Slot>] = unsafe []

    mutating func take(_ make: @autoclosure () -> Slot) -> UnsafeMutablePointer<Slot> {
        if let slot = unsafe idle.popLast() { return unsafe slot }
        let slot = UnsafeMutablePointer<Slot>.allocate(capacity: 1)
        unsafe slot.initialize(to: make())
        unsafe all.append(slot)
        return unsafe slot
    }

    mutating func give(_ slot: UnsafeMutablePointer<Slot>) { unsafe idle.append(slot) }

    func free(_ freeContents: (UnsafeMutablePointer<Slot>) -> Void) {
        for index in unsafe all.indices {
            let slot = unsafe all[index]
            unsafe freeContents(slot)
            unsafe slot.deinitialize(count: 1)
            unsafe slot.deallocate()
        }
    }
}
