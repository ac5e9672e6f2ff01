/// Iterates over lists of strings in validated JSON. Positions are offsets, so they are also valid in a copy of the
/// list.
package enum JSONStringList {
    /// Returns how many strings the list has, or `nil` if it has values of other types.
    ///
    /// - Parameter list: An array that `JSONScanner` accepted, including brackets.
    package static func count(in list: UnsafeRawBufferPointer) -> Int? {
        guard let base = list.baseAddress else { return nil }
        let end = unsafe base + list.count
        var p = unsafe JSONScanner.skipSpace(base + 1, end)
        var count = 0
        // This loop runs for each token of a fan-out, so it does not use `JSONReader`, which is slower.
        while unsafe p < end && p.load(as: UInt8.self) == 0x22 {
            guard let next = unsafe JSONString.end(of: p + 1, end) else { return nil }
            count &+= 1
            unsafe p = unsafe JSONScanner.skipSpace(next, end)
            guard unsafe p < end && p.load(as: UInt8.self) == 0x2C else { break }
            unsafe p = unsafe JSONScanner.skipSpace(p + 1, end)
        }
        return unsafe p + 1 == end ? count : nil
    }

    /// Returns the next string without its quotes, with unresolved escapes, or `nil` at the end. Start with `position`
    /// 0.
    ///
    /// - Parameter list: An array in which `count` found only strings, or a copy of it.
    package static func next(in list: UnsafeRawBufferPointer, after position: inout Int) -> UnsafeRawBufferPointer? {
        guard let base = list.baseAddress else { return nil }
        let end = unsafe base + list.count
        var p = unsafe base + position
        // Only brackets, commas and white space can be outside strings.
        while unsafe p < end && p.load(as: UInt8.self) != 0x22 { unsafe p += 1 }
        guard unsafe p < end, let next = unsafe JSONString.end(of: p + 1, end) else {
            position = list.count
            return nil
        }
        position = unsafe next - base
        return unsafe UnsafeRawBufferPointer(start: p + 1, count: next - p - 2)
    }
}
