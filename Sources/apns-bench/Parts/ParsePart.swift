import PushRecords

/// `parse` and `envelope`: a record becomes a checked request, its token normalized, as the machine does it on receipt.
final class ParsePart: PartRun {
    enum Form { case payloadForm, envelopeForm }

    private(set) var count = 0
    private var parser = RequestParser()
    private let records: [LentRecord]
    private let room = UnsafeMutableRawBufferPointer.allocate(byteCount: DeviceToken.textLimit, alignment: 8)

    init(_ form: Form) {
        let tokens = PartInputs.tokens(256)
        let payload = PartInputs.lasting(Traffic.payload(7))
        switch form {
        case .payloadForm:
            let headers = PartInputs.headers(PartInputs.manyHeaders)
            records = tokens.map { LentRecord(key: $0, value: payload, headers: headers) }
        case .envelopeForm:
            let headers = PartInputs.headers([])
            records = tokens.map {
                LentRecord(key: PartInputs.nothing, value: PartInputs.envelope([$0]), headers: headers)
            }
        }
    }

    deinit { room.deallocate() }

    func prepare() {}

    func turn() throws {
        for record in records {
            let request = parser.parse(key: record.key, value: record.value, headers: record.headers, role: .request)
            guard request.target == .device, !request.isInvalid,
                DeviceToken.normalize(request.token, into: room).failure == .none
            else { throw BenchFailure("a request that is right was refused: \(request.detail.text)") }
        }
        count += records.count
    }
}
