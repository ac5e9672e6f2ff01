import Configuration
import Delivery
import PushRecords
import Testing

@testable import Worker

/// The advice about refusals, for every reason with a name.
@Suite struct RefusalAdviceTests {
    private static let named = ReasonCode.allCases.filter { $0.text != nil }

    private static func app(_ edit: (inout AppSettings) -> Void = { _ in }) -> AppSettings {
        var app = AppSettings.withToken()
        edit(&app)
        return app
    }

    @Test(arguments: named)
    func `Every named reason of APNs has advice`(reason: ReasonCode) throws {
        let word = try #require(reason.reason)
        let text = try #require(
            RefusalAdvice.text(word, status: 400, topic: "com.example.shop", of: Self.app()), "\(word.rawValue)")
        #expect(text.count > 20 && text.last != "." && !text.contains("\n"), "\(text)")
        // The advice does not repeat the reason and does not depend on the status.
        #expect(!text.contains(word.rawValue))
        #expect(text == RefusalAdvice.text(word, status: 503, topic: "com.example.shop", of: Self.app()))
    }

    @Test(
        arguments: [
            (.none, 403, "credential"), (.other, 403, "credential"), (.other, 410, "delete the token"),
            (.other, 429, "too many requests"), (.none, 503, "try again"), (.none, 404, "any proxy"),
            (.other, 404, nil), (.other, 400, nil),
        ] as [(ReasonCode, Int, String?)])
    func `Without a known reason the status decides the advice`(reason: ReasonCode, status: Int, words: String?) {
        let text = RefusalAdvice.text(of: reason, status: status, "com.example.shop", Self.app())
        #expect(words.map { text?.contains($0) == true } ?? (text == nil), "\(text ?? "none")")
    }

    /// In a result, the reason of such an answer is its HTTP status.
    @Test func `The advice for an answer that is probably not from APNs names proxies`() {
        let text = RefusalAdvice.text(Reason(rawValue: "HTTP 404"), status: 404, topic: "t", of: Self.app())
        #expect(text?.contains("any proxy") == true)
        #expect(RefusalAdvice.text(Reason(rawValue: "HTTP 404"), status: 400, topic: "t", of: Self.app()) == nil)
    }

    @Test func `The advice for a refused certificate names its file`() {
        let app = AppSettings.withCertificate(.pem(certificate: .file("/etc/apns/shop.pem"), key: nil))
        #expect(
            RefusalAdvice.text(.badCertificate, status: 403, topic: "t", of: app)
                == "the certificate has expired, was revoked, or is not from Apple; renew /etc/apns/shop.pem")
    }

    @Test func `The advice for a bad token names the other environment only if that was not tried`() {
        let once = RefusalAdvice.text(.badDeviceToken, status: 400, topic: "t", of: Self.app())
        #expect(once?.contains("(try development)") == true)
        let both = RefusalAdvice.text(.badDeviceToken, status: 400, topic: "t", of: Self.app(), isOtherTried: true)
        #expect(both?.contains("either environment") == true)
    }

    @Test func `The advice for the binary protocol covers its limits and reasons`() {
        let app = Self.app {
            $0.binary = BinarySettings()
            $0.binary?.payloadLimit = 256
        }
        func text(_ word: String, _ status: Int) -> String {
            RefusalAdvice.text(Reason(rawValue: word), status: status, topic: "t", of: app) ?? ""
        }
        #expect(
            text("PayloadTooLarge", 7).contains("may have at most 256 bytes")
                && !text("PayloadTooLarge", 7).contains("4,096"))
        #expect(text("MissingDeviceToken", 2).contains("no broadcasts"))
        #expect(text("MissingTopic", 3).contains("certificate"))
        #expect(text("InvalidTokenSize", 5).contains("64 hex digits"))
        #expect(text("InvalidTopicSize", 6).contains("certificate"))
        #expect(text("ProtocolError", 128).contains("binary.format: framed"))
        for word in ["ProcessingError", "UnknownError", "GatewayStatus77"] {
            #expect(text(word, 255).contains("try again"))
        }
        #expect(RefusalAdvice.text(Reason(rawValue: "ProtocolError"), status: 128, topic: "t", of: Self.app()) == nil)
    }
}
