/// A header of a Kafka record, lent: both ranges stay valid only as long as their owner says.
package struct RecordHeader {
    package var name: UnsafeRawBufferPointer
    /// A header without a value (Kafka allows it) has a `nil` base address, and counts as absent.
    package var value: UnsafeRawBufferPointer

    @inlinable package init(name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) {
        self.name = name
        self.value = value
    }

    @inlinable package init(name: StaticString, value: UnsafeRawBufferPointer) {
        self.name = name.lentBytes
        self.value = value
    }
}

/// A record as a writer left it. Everything is lent until that writer's next `write`, or as long as what was given to
/// the writer (token, payload, copied headers), whichever ends first.
package struct EncodedRecord {
    package var key: UnsafeRawBufferPointer
    package var value: UnsafeRawBufferPointer
    package var headers: UnsafeBufferPointer<RecordHeader>

    @inlinable package init(
        key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer, headers: UnsafeBufferPointer<RecordHeader>
    ) {
        self.key = key
        self.value = value
        self.headers = headers
    }
}

/// Where a notification was asked for: `topic/partition/offset/index`. Identifies it, and is the key to deduplicate on.
package struct RequestPlace {
    /// The topic's name, lent. Kafka allows only `[a-zA-Z0-9._-]`, so it needs no escaping anywhere.
    package var topic: UnsafeRawBufferPointer
    package var partition: Int32
    package var offset: Int64
    /// Place in the record's list of tokens; 0 when there is one.
    package var index: Int32

    @inlinable package init(topic: UnsafeRawBufferPointer, partition: Int32, offset: Int64, index: Int32) {
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.index = index
    }
}

/// What a result or dead letter says in words: a fixed text, and the piece of input it is about (`text: subject`).
package struct Detail {
    /// Empty: there is nothing to say.
    package var text: StaticString
    /// Lent; may be any bytes. Empty: none. Writers cut it at `Detail.subjectLimit` bytes.
    package var subject: UnsafeRawBufferPointer

    package static let subjectLimit = RecordLimits.detailSubject
    @inlinable package static var none: Detail { Detail("") }

    @inlinable package init(
        _ text: StaticString, _ subject: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0)
    ) {
        self.text = text
        self.subject = subject
    }

    @inlinable package var isEmpty: Bool { text.utf8CodeUnitCount == 0 }
}

extension StaticString {
    /// Its UTF-8, which lives as long as the program.
    @inlinable package var lentBytes: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: utf8Start, count: utf8CodeUnitCount)
    }
}

/// A list of headers that is kept and reused: it grows, and never shrinks. Owns the list, not the bytes.
struct RecordHeaderList: ~Copyable {
    private var storage: UnsafeMutablePointer<RecordHeader>
    private var capacity: Int
    private var count = 0

    init(capacity: Int = RecordLimits.copiedHeaders + 24) {
        storage = .allocate(capacity: capacity)
        self.capacity = capacity
    }

    deinit { storage.deallocate() }

    mutating func removeAll() { count = 0 }

    @inline(__always)
    mutating func append(_ name: StaticString, _ value: UnsafeRawBufferPointer) {
        append(RecordHeader(name: name, value: value))
    }

    @inline(__always)
    mutating func append(_ header: RecordHeader) {
        if count == capacity { grow() }
        (storage + count).initialize(to: header)
        count &+= 1
    }

    mutating func append(contentsOf headers: UnsafeBufferPointer<RecordHeader>) {
        for header in headers { append(header) }
    }

    @inline(never)
    private mutating func grow() {
        let larger = UnsafeMutablePointer<RecordHeader>.allocate(capacity: capacity * 2)
        larger.moveInitialize(from: storage, count: count)
        storage.deallocate()
        storage = larger
        capacity *= 2
    }

    /// Lent until the next append or `removeAll`.
    var list: UnsafeBufferPointer<RecordHeader> { UnsafeBufferPointer(start: storage, count: count) }
}
