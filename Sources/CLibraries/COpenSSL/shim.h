// The declarations of OpenSSL that Swift imports, with static inline wrappers of macros and variadic functions.
#pragma once
#include <openssl/ssl.h>
#include <openssl/err.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <openssl/pkcs12.h>
#include <openssl/provider.h>
#include <openssl/ec.h>
#include <openssl/evp.h>

/// Requires TLS 1.2 or later, and disables renegotiation, compression and the resumption of sessions.
static inline void openssl_ctx_restrict(SSL_CTX *context) {
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
}

/// Sets the Server Name Indication. OpenSSL copies the name.
static inline int openssl_set_server_name(SSL *ssl, const char *name) {
    return (int)SSL_set_tlsext_host_name(ssl, name);
}

static inline EVP_PKEY *openssl_generate_p256(void) { return EVP_EC_gen("P-256"); }

/// Returns an error's reason, such as SSL_R_UNEXPECTED_EOF_WHILE_READING, or 0 if the error is not about TLS.
static inline int openssl_tls_reason(unsigned long code) {
    return ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0;
}

/// Adds a certificate to the chain. The chain takes its own reference.
static inline int openssl_ctx_add_chain(SSL_CTX *context, X509 *certificate) {
    return (int)SSL_CTX_add1_chain_cert(context, certificate);
}

static inline X509 *openssl_certificates_pop(STACK_OF(X509) *stack) { return sk_X509_pop(stack); }

/// Frees the stack but not its certificates.
static inline void openssl_certificates_free(STACK_OF(X509) *stack) { sk_X509_free(stack); }

/// Returns the number of elements in a SEQUENCE OF ANY.
static inline int openssl_elements_count(const ASN1_SEQUENCE_ANY *elements) { return sk_ASN1_TYPE_num(elements); }

static inline const ASN1_TYPE *openssl_elements_at(const ASN1_SEQUENCE_ANY *elements, int index) {
    return sk_ASN1_TYPE_value(elements, index);
}

static inline void openssl_elements_free(ASN1_SEQUENCE_ANY *elements) {
    sk_ASN1_TYPE_pop_free(elements, ASN1_TYPE_free);
}

/// Returns the text of a UTF8String, or NULL for another type.
static inline const ASN1_STRING *openssl_element_utf8(const ASN1_TYPE *element) {
    return element->type == V_ASN1_UTF8STRING ? element->value.utf8string : NULL;
}
