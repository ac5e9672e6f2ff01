/// A Kafka record that owns its bytes.
package struct OwnedRecord: Equatable, Sendable {
    package struct Header: Equatable, Sendable {
        package var name: [UInt8]
        package var value: [UInt8]?

        package init(_ name: [UInt8], _ value: [UInt8]?) {
            self.name = name
            self.value = value
        }
    }

    package var key: [UInt8]?
    package var value: [UInt8]?
    package var headers: [Header]

    package init(key: [UInt8]?, value: [UInt8]?, headers: [Header]) {
        self.key = key
        self.value = value
        self.headers = headers
    }

    /// Creates a record by copying borrowed bytes. Buffers without a base address become `nil`.
    package init(
        copying key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, headers: some Sequence<RecordHeader>
    ) {
        func copy(_ bytes: UnsafeRawBufferPointer) -> [UInt8]? { bytes.baseAddress == nil ? nil : Array(bytes) }
        self.key = copy(key)
        self.value = copy(value)
        self.headers = headers.map { Header(Array($0.name), copy($0.value)) }
    }

    /// The total size in bytes of the key, the value, and the names and values of headers.
    package var byteCount: Int {
        headers.reduce((key?.count ?? 0) + (value?.count ?? 0)) { $0 + $1.name.count + ($1.value?.count ?? 0) }
    }

    /// Calls `body` with the record's key, value and headers, which are valid during the call.
    package func withLent<R>(
        _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer, UnsafeBufferPointer<RecordHeader>) -> R
    ) -> R {
        // Copy all arrays into one block, because nested arrays cannot be borrowed together. The extra byte gives empty
        // values an address.
        let block = UnsafeMutableRawBufferPointer.allocate(byteCount: byteCount + 1, alignment: 1)
        defer { block.deallocate() }
        var used = 0
        func lend(_ bytes: [UInt8]?) -> UnsafeRawBufferPointer {
            guard let bytes else { return .nothing }
            let room = UnsafeMutableRawBufferPointer(rebasing: block[used..<(used + bytes.count)])
            room.copyBytes(from: bytes)
            used += bytes.count
            return UnsafeRawBufferPointer(room)
        }
        let lentKey = lend(key)
        let lentValue = lend(value)
        let lentHeaders = headers.map { RecordHeader(name: lend($0.name), value: lend($0.value)) }
        return lentHeaders.withUnsafeBufferPointer { body(lentKey, lentValue, $0) }
    }
}

extension OwnedRecord.Header {
    init(_ name: StaticString, _ value: some StringProtocol) {
        self.init(Array(name.lentBytes), Array(value.utf8))
    }
}
