// NCCL's types and their arithmetic.
#include "nccl_values.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include <truestep/simulator/fault.hpp>

namespace truestep::simulator::nccl {

namespace {

struct Type {
    const char* name;
    std::size_t size;
};
constexpr std::array<Type, ncclNumTypes> types{{{"ncclInt8", 1},
                                                {"ncclUint8", 1},
                                                {"ncclInt32", 4},
                                                {"ncclUint32", 4},
                                                {"ncclInt64", 8},
                                                {"ncclUint64", 8},
                                                {"ncclFloat16", 2},
                                                {"ncclFloat32", 4},
                                                {"ncclFloat64", 8},
                                                {"ncclBfloat16", 2},
                                                {"ncclFloat8e4m3", 1},
                                                {"ncclFloat8e5m2", 1}}};

template <class T>
T joined(T one, T other, ncclRedOp_t operation) {
    switch (operation) {
    case ncclSum:
    case ncclAvg:
        return static_cast<T>(one + other);
    case ncclProd:
        return static_cast<T>(one * other);
    case ncclMax:
        return std::max(one, other);
    case ncclMin:
        return std::min(one, other);
    default:
        throw Fault("NCCL: an operation that the simulator does not know, " + std::to_string(operation));
    }
}

template <class T>
void reduce_as(const std::vector<const std::uint8_t*>& parts, std::uint8_t* result, std::size_t count,
               ncclRedOp_t operation) {
    const auto value = [](const std::uint8_t* from, std::size_t i) {
        T read;
        std::memcpy(&read, from + i * sizeof(T), sizeof(T));
        return read;
    };
    for (std::size_t i = 0; i < count; ++i) {
        T all = value(parts.front(), i);
        for (std::size_t part = 1; part < parts.size(); ++part)
            all = joined(all, value(parts[part], i), operation);
        if (operation == ncclAvg)
            all = static_cast<T>(all / static_cast<T>(parts.size()));
        std::memcpy(result + i * sizeof(T), &all, sizeof(T));
    }
}

} // namespace

bool known(ncclDataType_t type) {
    return static_cast<std::size_t>(type) < types.size();
}

std::size_t size_of(ncclDataType_t type) {
    return types.at(static_cast<std::size_t>(type)).size;
}

const char* name_of(ncclDataType_t type) {
    return types.at(static_cast<std::size_t>(type)).name;
}

void reduce(const std::vector<const std::uint8_t*>& parts, std::uint8_t* result, std::size_t count,
            ncclDataType_t type, ncclRedOp_t operation) {
    switch (type) {
    case ncclInt8:
        return reduce_as<std::int8_t>(parts, result, count, operation);
    case ncclUint8:
        return reduce_as<std::uint8_t>(parts, result, count, operation);
    case ncclInt32:
        return reduce_as<std::int32_t>(parts, result, count, operation);
    case ncclUint32:
        return reduce_as<std::uint32_t>(parts, result, count, operation);
    case ncclInt64:
        return reduce_as<std::int64_t>(parts, result, count, operation);
    case ncclUint64:
        return reduce_as<std::uint64_t>(parts, result, count, operation);
    case ncclFloat32:
        return reduce_as<float>(parts, result, count, operation);
    case ncclFloat64:
        return reduce_as<double>(parts, result, count, operation);
    default:
        throw Fault(std::string("NCCL: the simulator does not add ") + name_of(type));
    }
}

} // namespace truestep::simulator::nccl
