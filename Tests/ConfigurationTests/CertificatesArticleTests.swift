import Configuration
import Foundation
import Testing

/// The settings in the article on certificates.
@Suite struct CertificatesArticleTests {
    @Test func eachFormIsTaken() throws {
        let place = ReadmeTests.readme.deletingLastPathComponent()
            .appending(path: "Sources/Worker/Worker.docc/Certificates.md")
        let forms = try String(contentsOf: place, encoding: .utf8).components(separatedBy: "```yaml\n").dropFirst()
            .map { $0.components(separatedBy: "```")[0] }
        #expect(forms.count == 7)
        for form in forms {
            let file = minimal.replacing(/token: .*\n/, with: form)
            #expect(file.contains("certificate"))
            #expect(
                errors(file, ["CERT_PEM": "a", "KEY_PEM": "b", "P12_BASE64": "c", "P12_PASS": "d"]) == [], "\(form)")
        }
    }
}
