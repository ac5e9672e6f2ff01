/// A buffer at a fixed address that lives as long as this object.
package final class Lent {
    package let bytes: UnsafeRawBufferPointer
    private let memory: UnsafeMutableRawBufferPointer

    package init(_ text: String) {
        memory = .allocate(byteCount: max(1, text.utf8.count), alignment: 1)
        memory.copyBytes(from: text.utf8)
        bytes = UnsafeRawBufferPointer(rebasing: memory[0..<text.utf8.count])
    }

    deinit { memory.deallocate() }
}
