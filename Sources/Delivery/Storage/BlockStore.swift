/// Blocks of memory for the bytes of records, in classes of 64 bytes up to 8 KB, each with a free list; larger ones
/// come from malloc. What lies idle in free lists is limited.
struct BlockStore: ~Copyable {
    private static let step = 64
    private static let classCount = 128

    /// The first free block of each class; its first word leads to the next.
    private var free: UnsafeMutablePointer<UnsafeMutableRawPointer?>
    private var idleBytes = 0
    private let idleLimit: Int
    /// Bytes given out, rounded up to the class.
    private(set) var openBytes = 0

    init(idleLimit: Int) {
        free = .allocate(capacity: Self.classCount)
        free.initialize(repeating: nil, count: Self.classCount)
        self.idleLimit = idleLimit
    }

    deinit {
        for index in 0..<Self.classCount {
            while let block = free[index] {
                free[index] = block.load(as: UnsafeMutableRawPointer?.self)
                block.deallocate()
            }
        }
        free.deallocate()
    }

    /// What a block of this many bytes takes.
    static func rounded(_ size: Int) -> Int { max(step, (size + step - 1) & ~(step - 1)) }

    /// A block of at least `size` bytes, aligned to 16; it must be given back with the same size.
    mutating func take(_ size: Int) -> UnsafeMutableRawPointer {
        let bytes = Self.rounded(size)
        openBytes += bytes
        let index = bytes / Self.step - 1
        if index < Self.classCount, let block = free[index] {
            free[index] = block.load(as: UnsafeMutableRawPointer?.self)
            idleBytes -= bytes
            return block
        }
        return .allocate(byteCount: bytes, alignment: 16)
    }

    mutating func giveBack(_ block: UnsafeMutableRawPointer, size: Int) {
        let bytes = Self.rounded(size)
        openBytes -= bytes
        let index = bytes / Self.step - 1
        guard index < Self.classCount, idleBytes + bytes <= idleLimit else {
            block.deallocate()
            return
        }
        block.storeBytes(of: free[index], as: UnsafeMutableRawPointer?.self)
        free[index] = block
        idleBytes += bytes
    }
}
