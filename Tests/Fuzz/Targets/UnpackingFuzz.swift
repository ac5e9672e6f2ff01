import CUnpacking
import Glibc

/// Calls that come from the C library are limited as librdkafka's are: tests set limits of their own for theirs.
private nonisolated(unsafe) let caller: UnsafeRawPointer? = {
    let function = UnsafeRawPointer(dlsym(nil, "qsort"))
    _ = unpacking_limit(1 << 20, .max, function)
    return function
}()

/// A response is changed where it lies, and stays as long as it is; looked at again, nothing more of it changes.
func fuzzFetchResponse(_ bytes: UnsafeRawBufferPointer) {
    let response = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
    defer { response.deallocate() }
    response.copyBytes(from: bytes)
    guard let start = response.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return }
    unpacking_check_response(start, response.count, caller)
    let once = Array(response)
    unpacking_check_response(start, response.count, caller)
    require(once.elementsEqual(response), "a batch that cannot be unpacked is left as it is")
}
