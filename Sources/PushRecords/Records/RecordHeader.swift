/// A borrowed header of a Kafka record.
package struct RecordHeader {
    package var name: UnsafeRawBufferPointer
    /// The header's value. If the header has no value, the buffer has no base address.
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

/// A record that a writer created. The record is valid until the writer's next `write`, and only while the writer's
/// input (token, payload, copied headers) is valid.
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

/// The position of a request in Kafka, which identifies a notification: the topic, partition and offset of the record,
/// and the notification's index in the record's list of tokens.
package struct RequestPlace {
    /// The topic's name, borrowed. The name needs no escaping because Kafka allows only `[a-zA-Z0-9._-]`.
    package var topic: UnsafeRawBufferPointer
    package var partition: Int32
    package var offset: Int64
    /// The index in the record's list of tokens. 0 if the record has a single target.
    package var index: Int32

    @inlinable package init(topic: UnsafeRawBufferPointer, partition: Int32, offset: Int64, index: Int32) {
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.index = index
    }
}

/// The detail of a result or dead letter: a constant text and the part of the input that it describes.
package struct Detail {
    /// The constant text, which is empty if there is no detail.
    package var text: StaticString
    /// The part of the input that the text describes, or empty. It may contain any bytes, and is borrowed. Writers
    /// truncate the subject to `Detail.subjectLimit` bytes.
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
    /// The UTF-8 bytes of the static string, valid for the life of the process.
    @inlinable package var lentBytes: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: utf8Start, count: utf8CodeUnitCount)
    }
}

/// A reusable list of borrowed headers, whose capacity grows and never shrinks.
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

    /// Appends the APNs headers of a record in payload form, except those that name the device or channel.
    ///
    /// - Parameter text: The buffer for header values that this function creates, such as numbers.
    mutating func append(_ headers: ParsedRequest.Headers, _ text: inout HeaderText) {
        if headers.topic.count > 0 { append("apns-topic", headers.topic) }
        append("apns-push-type", headers.pushType.text.lentBytes)
        if headers.priority > 0 { append("apns-priority", text.add(Int64(headers.priority))) }
        if let expiration = headers.expiration { append("apns-expiration", text.add(Int64(expiration))) }
        if headers.collapseID.count > 0 { append("apns-collapse-id", headers.collapseID) }
        if headers.apnsID != .none { append("apns-id", text.add(headers.apnsID)) }
    }

    @inline(never)
    private mutating func grow() {
        let larger = UnsafeMutablePointer<RecordHeader>.allocate(capacity: capacity * 2)
        larger.moveInitialize(from: storage, count: count)
        storage.deallocate()
        storage = larger
        capacity *= 2
    }

    /// The headers, valid until the next append or `removeAll`.
    var list: UnsafeBufferPointer<RecordHeader> { UnsafeBufferPointer(start: storage, count: count) }
}
