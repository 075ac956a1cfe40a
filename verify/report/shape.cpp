// Checks that a JSON file has the required keys and types, and words the errors.
#include "shape.hpp"

#include <truestep/problem/text.hpp>
#include <truestep/report/status.hpp>

namespace truestep::report {

namespace {

using Json = Shape::Json;

const char* words(ContentType want) {
    switch (want) {
    case ContentType::text:
        return "a text";
    case ContentType::count:
        return "a whole number of at least 0";
    case ContentType::whole:
        return "a whole number";
    case ContentType::number:
        return "a number of at least 0";
    case ContentType::number_or_infinity:
        return "a number of at least 0 or the text inf";
    case ContentType::truth:
        return "true or false";
    case ContentType::texts:
        return "a list of texts";
    case ContentType::status:
        return "one of PASSED, FAILED, SKIPPED, MISTRUSTED, UNTESTED";
    case ContentType::object:
        return "an object";
    case ContentType::list:
        break;
    }
    return "a list";
}

bool is_status(const Json& value) {
    for (const Status status :
         {Status::passed, Status::failed, Status::skipped, Status::mistrusted, Status::untested})
        if (value == name(status))
            return true;
    return false;
}

bool is_texts(const Json& value) {
    if (!value.is_array())
        return false;
    for (const Json& element : value)
        if (!element.is_string())
            return false;
    return true;
}

bool is_count(const Json& value) {
    return value.is_number_unsigned() || (value.is_number_integer() && value.get<std::int64_t>() >= 0);
}

bool fits(const Json& value, ContentType want) {
    switch (want) {
    case ContentType::text:
        return value.is_string();
    case ContentType::count:
        return is_count(value);
    case ContentType::whole:
        return value.is_number_integer();
    case ContentType::number:
        return value.is_number() && value.get<double>() >= 0.0;
    case ContentType::number_or_infinity:
        return value == "inf" || fits(value, ContentType::number);
    case ContentType::truth:
        return value.is_boolean();
    case ContentType::texts:
        return is_texts(value);
    case ContentType::status:
        return is_status(value);
    case ContentType::object:
        return value.is_object();
    case ContentType::list:
        break;
    }
    return value.is_array();
}

} // namespace

Error Shape::error(const std::string& what, const std::string& remedy) const {
    return Error(one_line(path_ + ": " + what + "; " + remedy));
}

Error Shape::malformed(const std::string& what) const {
    return error(
        what,
        "make the file again with truestep check or truestep planted (docs/results.md says what it holds)");
}

std::string Shape::shown(const Json& value) {
    constexpr std::size_t most = 60;
    if (value.is_structured())
        return value.is_array() ? "a list" : "an object";
    const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    return text.size() <= most ? text : text.substr(0, most) + "...";
}

void Shape::keys(const Json& object, const std::string& where, std::initializer_list<Key> wanted) const {
    if (!object.is_object())
        throw malformed(where + " is not an object");
    for (const Key& key : wanted) {
        const auto found = object.find(key.name);
        if (found == object.end())
            throw malformed(where + " has no '" + key.name + "'");
        value(*found, where + ": '" + key.name + "'", key.want);
    }
}

void Shape::values(const Json& object, const std::string& where, ContentType want) const {
    for (const auto& [key, held] : object.items())
        value(held, where + ": '" + key + "'", want);
}

void Shape::value(const Json& value, const std::string& where, ContentType want) const {
    if (!fits(value, want))
        throw malformed(where + " is " + shown(value) + ", not " + words(want));
}

const Json& Shape::nullable(const Json& object, const std::string& where, const std::string& key) const {
    const auto found = object.find(key);
    if (found == object.end())
        throw malformed(where + " has no '" + key + "' (it may be null)");
    return *found;
}

} // namespace truestep::report
