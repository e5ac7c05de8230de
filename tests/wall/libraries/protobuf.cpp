/* SPDX-License-Identifier: MIT
 *
 * protobuf: descriptors are built at first use, out of what the generated code brings, under locks of its own, and stay
 * for the process; so does what reflection and JSON make of them. */
#include "library.h"

#include <google/protobuf/arena.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/message_differencer.h>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "tree.pb.h"

namespace pb = google::protobuf;

namespace
{

void fill(walled::Node *node, uint32_t seed, unsigned depth)
{
    node->set_id(seed % 1000 + depth);
    node->set_name("node " + std::to_string(seed) + "." + std::to_string(depth));
    node->set_kind(depth > 0 ? walled::Node::KIND_BRANCH : walled::Node::KIND_LEAF);
    for (unsigned i = 0; i < 4; i++) {
        (*node->mutable_weights())["weight " + std::to_string(i * seed % 17)] = -static_cast<int64_t>(i * depth);
        node->add_packed(uint64_t{ seed } << (8 * i));
    }
    if (depth % 2 == 0)
        node->set_number(seed / 4.0);
    else
        node->set_blob(std::string(20, static_cast<char>(seed % 256)));
    node->mutable_made()->set_seconds(1600000000 + seed);
    if (depth == 2) {
        (*node->mutable_notes()->mutable_fields())["text"].set_string_value("a note");
        (*node->mutable_notes()->mutable_fields())["list"].mutable_list_value()->add_values()->set_number_value(seed);
        node->mutable_other()->PackFrom(node->made());
    }
    for (unsigned i = 0; depth > 0 && i < 3; i++)
        fill(node->add_children(), seed * 3 + i, depth - 1);
}

/* Bytes that are the same each time; a map's own order changes. */
std::string serialize(const pb::Message &message)
{
    std::string bytes;
    {
        pb::io::StringOutputStream stream(&bytes);
        pb::io::CodedOutputStream coded(&stream);
        coded.SetSerializationDeterministic(true);
        message.SerializeToCodedStream(&coded);
    }
    return bytes;
}

/* By reflection: the names and numbers of all fields that are set, through all levels. */
void walk(const pb::Message &message, uint64_t *sum)
{
    std::vector<const pb::FieldDescriptor *> fields;
    const pb::Reflection *reflection = message.GetReflection();
    reflection->ListFields(message, &fields);
    for (const pb::FieldDescriptor *field : fields) {
        sum_text(sum, std::string(field->full_name()).c_str());
        if (field->is_map() || field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE)
            continue;
        if (!field->is_repeated())
            walk(reflection->GetMessage(message, field), sum);
        for (int i = 0; field->is_repeated() && i < reflection->FieldSize(message, field); i++)
            walk(reflection->GetRepeatedMessage(message, field, i), sum);
    }
}

/* A type that was never compiled: described by a text, built, filled, and read back. */
bool use_made_up_type(uint32_t seed, uint64_t *sum)
{
    pb::FileDescriptorProto file;
    if (!pb::TextFormat::ParseFromString("name: 'made.proto' message_type { name: 'Made'"
                                         " field { name: 'text' number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }"
                                         " field { name: 'more' number: 2 label: LABEL_REPEATED type: TYPE_MESSAGE"
                                         "         type_name: '.Made' } }",
                                         &file))
        return false;
    pb::DescriptorPool descriptors;
    pb::DynamicMessageFactory factory;
    const pb::FileDescriptor *built = descriptors.BuildFile(file);
    if (built == nullptr)
        return false;
    const pb::Descriptor *type = built->message_type(0);
    std::unique_ptr<pb::Message> made(factory.GetPrototype(type)->New());
    std::string text = "text: 'seed " + std::to_string(seed) + "' more { text: 'inner' more { } } more { }";
    if (!pb::TextFormat::ParseFromString(text, made.get()))
        return false;
    sum_text(sum, serialize(*made).c_str());
    return true;
}

bool run(uint32_t seed, uint64_t *sum)
{
    pb::Arena arena;
#if GOOGLE_PROTOBUF_VERSION < 4000000
    auto *node = pb::Arena::CreateMessage<walled::Node>(&arena);
#else
    auto *node = pb::Arena::Create<walled::Node>(&arena);
#endif
    fill(node, seed, 3);
    std::string bytes = serialize(*node);
    sum_bytes(sum, bytes.data(), bytes.size());
    walk(*node, sum);

    walled::Node parsed;
    std::string text, json;
    if (!parsed.ParseFromString(bytes) || !pb::TextFormat::PrintToString(parsed.children(0), &text) ||
        !pb::util::MessageToJsonString(parsed.children(1), &json).ok())
        return false;
    sum_text(sum, text.c_str());
    walled::Node read;
    if (!pb::util::JsonStringToMessage(json, &read).ok() ||
        !pb::util::MessageDifferencer::Equals(read, parsed.children(1)))
        return false;
    return use_made_up_type(seed, sum);
}

int work(uint32_t seed, uint64_t *sum)
{
    try {
        return run(seed, sum) ? 0 : EBADMSG;
    } catch (const std::bad_alloc &) {
        return ENOMEM;
    }
}

} // namespace

extern "C" const struct library library_protobuf = { "protobuf", { nullptr }, work };
